# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions on the exact text of an exception."""

import contextlib

import pytest


@contextlib.contextmanager
def raises_text(exception: type[BaseException], text: str):
    """As pytest.raises, with the whole message; notes that JAX adds are left out."""
    with pytest.raises(exception) as info:
        yield info
    assert str(info.value) == text
