# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Device mode: a whole decode or gradient step is one CUDA graph."""

import dataclasses
import functools

import graph_steps as steps
import jax
import pytest

from graphsafe_gg.testing import assert_graph_safe, inspect_graph
from graphsafe_gg.testing.targets import TARGETS

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.slow]

OLD_CUDA = dataclasses.replace(TARGETS["h200"], cuda_version=(12, 8))
CAPTURE_LOOPS = "--xla_gpu_enable_command_buffer=+WHILE"
UNROLL_LOOPS = f"{CAPTURE_LOOPS} --xla_gpu_command_buffer_unroll_loops=true"


def call_names(operations):
    return [operation.call.name for operation in operations]


def layer_call_names(num_layers):
    return [
        f"layer{index}.{part}"
        for index in range(num_layers)
        for part in ("gate_up", "down")
    ]


@functools.cache
def scan_report(xla_flags=""):
    return inspect_graph(
        steps.scanned("device"), *steps.scanned_args(), xla_flags=xla_flags
    )


def test_decode_unrolled_step_is_one_graph():
    report = assert_graph_safe(
        steps.unrolled("device"), *steps.unrolled_args(), one_graph=True
    )
    assert report.is_one_graph
    assert report.findings == ()
    assert report.short_runs == ()
    assert call_names(report.graphs[0].calls) == layer_call_names(steps.NUM_LAYERS)


def test_decode_unrolled_step_is_one_graph_with_loop_capture():
    report = assert_graph_safe(
        steps.unrolled("device"),
        *steps.unrolled_args(2),
        one_graph=True,
        xla_flags=CAPTURE_LOOPS,
    )
    assert "WHILE" in report.command_types
    assert call_names(report.graphs[0].calls) == layer_call_names(2)


def test_decode_sliced_stack_is_one_graph_from_cuda_12_9():
    report = assert_graph_safe(
        steps.sliced("device"), *steps.sliced_args(2), one_graph=True
    )
    assert {call.kind for call in report.calls} == {"kDynamicSliceFusion"}


def test_decode_sliced_stack_breaks_the_graph_before_cuda_12_9():
    with pytest.raises(AssertionError) as error:
        assert_graph_safe(
            steps.sliced("device"), *steps.sliced_args(2), target=OLD_CUDA
        )
    text = str(error.value)
    assert "takes from CUDA 12.9 on; the target has 12.8" in text
    for name in layer_call_names(2):
        assert repr(name) in text


def test_decode_scan_has_one_graph_that_holds_every_call_of_the_body():
    report = scan_report()
    (loop,) = report.loops
    (graph,) = report.graphs
    assert report.findings == ()
    assert (loop.trip_count, loop.graph) == (steps.NUM_LAYERS, None)
    assert graph.scope == (f"{loop.instruction} body",)
    assert call_names(graph.calls) == ["layer.gate_up", "layer.down"]
    assert graph.calls == report.calls
    # What is left to launch alone is around the loop, not in it.
    assert all(operation.scope == () for operation in report.short_runs)


def shared_weights(x, w, sizes):
    """A loop in which nothing depends on the index: no slices."""

    def turn(_, x):
        return steps.normalise(steps.pair(x, w, sizes))

    return steps.normalise(jax.lax.fori_loop(0, 4, turn, steps.normalise(x)))


def test_decode_loop_is_graph_safe_but_not_one_graph():
    report = assert_graph_safe(shared_weights, *steps.PAIR_ARGS)
    assert not report.is_one_graph
    with pytest.raises(AssertionError, match=r"launches each turn of loop while"):
        assert_graph_safe(shared_weights, *steps.PAIR_ARGS, one_graph=True)


def test_decode_scan_that_slices_is_not_captured_by_loop_capture_alone():
    report = scan_report(CAPTURE_LOOPS)
    assert report.findings == ()
    assert [loop.graph for loop in report.loops] == [None]
    assert call_names(report.graphs[0].calls) == ["layer.gate_up", "layer.down"]


def test_decode_scan_is_one_graph_with_loops_captured_and_unrolled():
    report = scan_report(UNROLL_LOOPS)
    assert report.is_one_graph
    assert [loop.graph for loop in report.loops] == [0]
    assert call_names(report.graphs[0].calls) == ["layer.gate_up", "layer.down"]


def test_decode_loop_without_slices_is_one_graph_with_loop_capture():
    report = assert_graph_safe(
        shared_weights,
        *steps.PAIR_ARGS,
        one_graph=True,
        xla_flags=f"{CAPTURE_LOOPS} --xla_gpu_graph_min_graph_size=1",
    )
    assert [loop.graph for loop in report.loops] == [0]
    assert call_names(report.calls) == ["pair.up", "pair.down"]


def test_decode_scan_over_slices_breaks_every_turn_before_cuda_12_9():
    report = inspect_graph(
        steps.scanned("device"), *steps.scanned_args(2), target=OLD_CUDA
    )
    outside = [found.operation for found in report.findings if found.operation.call]
    assert call_names(outside) == ["layer.gate_up", "layer.down"]
    assert not any(graph.calls for graph in report.graphs)


def test_decode_gradient_step_is_one_graph():
    report = assert_graph_safe(
        steps.trained("device"), *steps.trained_args(2), one_graph=True
    )
    products = [call.call.product for call in report.graphs[0].calls]
    # Two products a layer forward, and for each a dlhs and a drhs backward.
    assert products.count("grouped_gemm") == 8
    assert products.count("drhs") == 4
