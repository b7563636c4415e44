# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing here is collected without a GPU."""

from support import platforms


def pytest_ignore_collect():
    return platforms.gpu_platform() is None or None
