# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Stacked weights with `layer=`: what XLA makes of a scan over layers on a GPU."""

import functools

import graph_steps as steps
import jax
import jax.numpy as jnp
import pytest

import graphsafe_gg as gg
from graphsafe_gg.testing import _deviceless, inspect_graph
from graphsafe_gg.testing.targets import find_target

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.slow]

LAYERS = 24
ARGS = (
    steps.shape(steps.NUM_TOKENS, steps.HIDDEN),
    steps.shape(LAYERS, steps.NUM_EXPERTS, steps.HIDDEN, steps.HIDDEN),
    steps.shape(LAYERS, steps.NUM_EXPERTS, steps.HIDDEN),
    steps.shape(steps.NUM_EXPERTS, dtype=jnp.int32),
)
# Elements of the weights of one layer: nothing else is as large.
LARGE = steps.NUM_EXPERTS * steps.HIDDEN * steps.HIDDEN
WITHOUT_WORK = {"parameter", "get-tuple-element", "bitcast", "tuple", "while"}


def with_index(x, stack, bias, sizes):
    def body(x, layer):
        out = gg.grouped_gemm(x, stack, sizes, bias=bias, layer=layer, name="scanned")
        return jnp.tanh(out), None

    return jax.lax.scan(body, x, jnp.arange(LAYERS))[0]


def with_slices(x, stack, bias, sizes):
    def body(x, layer):
        weights, row = layer
        out = gg.grouped_gemm(x, weights, sizes, bias=row, name="scanned")
        return jnp.tanh(out), None

    return jax.lax.scan(body, x, (stack, bias))[0]


@functools.cache
def instructions(step):
    module = _deviceless.lower(step, ARGS)
    compiler = _deviceless.Compiler(module, find_target("h200"), "", {}, [])
    return compiler.dump()[0].module.instructions


def large_results(step):
    """Opcodes of all that gives an array as large as the weights of a layer."""
    found = set()
    for instruction in instructions(step).values():
        kind = instruction.text.partition("[")
        axes = kind[2].partition("]")[0]
        sizes = [int(size) for size in axes.split(",") if size.isdigit()]
        if kind[0] == "bf16" and functools.reduce(int.__mul__, sizes, 1) >= LARGE:
            found.add(instruction.opcode)
    return found


def test_layers_by_index_are_neither_sliced_nor_copied():
    assert large_results(with_index) <= WITHOUT_WORK


def test_layers_by_slices_are_seen_to_be_sliced():
    assert not large_results(with_slices) <= WITHOUT_WORK


def test_layers_by_index_are_a_plain_call_in_the_graph_of_the_body():
    report = inspect_graph(with_index, *ARGS)
    (call,) = report.calls
    assert call.kind == "kCustomCall"
    assert call.graph == 0
    assert report.findings == ()
