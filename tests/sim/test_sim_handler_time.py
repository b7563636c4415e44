# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of a handler's own time runs every handler to its end."""

import math

import pytest

from graphsafe_gg import _testing


@pytest.mark.parametrize("mode", ["copy", "device", "sync", "async"])
def test_handler_time_is_a_number(mode):
    assert math.isfinite(_testing.time_handler(mode, repeats=10))


def test_handler_time_of_an_unknown_mode_names_the_target():
    with pytest.raises(Exception, match="graphsafe_gg_grouped_gemm_slow_v2"):
        _testing.time_handler("slow", repeats=1)
