# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Exception types of the package and the one form of its messages."""


class GroupSizesError(ValueError):
    """Bad group sizes that a device recorded, raised by a later call or by `check`."""


def message(op: str, argument: str, rule: str, got: object, advice: str) -> str:
    return f"{op}: {argument} must {rule}; got {got}. {advice}"
