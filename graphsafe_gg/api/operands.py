# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands that a product may have behind its three, and how a program encodes them.

A program lists those that are there, in the order of the fields, and says which by the
sum of their bits: OptionalOperand of csrc/ffi/boundary.h. A group_offset or layer that
is known when the program is traced is no operand but an attribute.
"""

from typing import Any, NamedTuple


class OptionalOperands(NamedTuple):
    """Arrays, or None where the call has no such operand."""

    ticket: Any = None
    bias: Any = None
    group_offset: Any = None
    layer: Any = None

    @property
    def bits(self) -> int:
        return sum(1 << i for i, operand in enumerate(self) if operand is not None)

    def present(self) -> list:
        return [operand for operand in self if operand is not None]

    def linear(self) -> "OptionalOperands":
        """What is left for a tangent or cotangent: a bias is a term of its own, and a
        ticket no residual."""
        return self._replace(ticket=None, bias=None)


def unpack(bits: int, operands) -> OptionalOperands:
    left = iter(operands)
    return OptionalOperands(
        *(
            next(left) if bits >> i & 1 else None
            for i in range(len(OptionalOperands._fields))
        )
    )


class Index(NamedTuple):
    """A group_offset or layer: a static value or a traced scalar; -1 and None if there
    is none or it is the other."""

    static: int = -1
    traced: Any = None
