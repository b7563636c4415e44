# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The result and both gradients of one call, and their comparison with the truth."""

import functools
from typing import Any, NamedTuple

import jax
from support.operands import Operands

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    assert_bit_equal,
    assert_close,
    reference_dlhs,
    reference_drhs,
    reference_grouped_gemm,
)


class Products(NamedTuple):
    out: Any
    dlhs: Any
    drhs: Any


def _products(lhs, rhs, group_sizes, dout, **options) -> Products:
    def call(lhs, rhs):
        return gg.grouped_gemm(lhs, rhs, group_sizes, **options)

    out, pullback = jax.vjp(call, lhs, rhs)
    return Products(out, *pullback(dout))


_OPTIONS = ("mode", "transpose_rhs", "preferred_element_type", "precision", "name")
run_products = jax.jit(_products, static_argnames=_OPTIONS)


def truth_of(operands: Operands, transpose_rhs: bool = False) -> Products:
    """The reference, with the cotangent rounded once to the operands' type."""
    lhs, rhs, sizes, dout = operands
    dout = dout.astype(lhs.dtype)
    options = {"transpose_rhs": transpose_rhs}
    return Products(
        reference_grouped_gemm(lhs, rhs, sizes, **options),
        reference_dlhs(dout, rhs, sizes, **options),
        reference_drhs(lhs, dout, sizes, **options),
    )


def assert_products_close(actual: Products, truth: Products, what: str = "") -> None:
    for name, array, wanted in zip(Products._fields, actual, truth, strict=True):
        assert_close(array, wanted, what=f"{what}{name}")


def assert_products_bit_equal(actual: Products, expected: Products, what: str = ""):
    for name, array, wanted in zip(Products._fields, actual, expected, strict=True):
        assert_bit_equal(array, wanted, what=f"{what}{name}")


def check_products(operands: Operands, what: str = "", **options) -> Products:
    """Runs the call and its gradients, compares all three and returns them."""
    actual = run_products(*operands, **options)
    truth = truth_of(operands, options.get("transpose_rhs", False))
    assert_products_close(actual, truth, what)
    return jax.tree.map(functools.partial(jax.device_get), actual)
