# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The one exception that the command turns into a line and exit status 2."""


class UsageError(ValueError):
    """An option or a file is wrong; the text says which and what to do."""
