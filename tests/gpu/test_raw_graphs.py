# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs outside XLA: the copy and the products captured on a caller's stream."""

import dataclasses
import threading

import jax.numpy as jnp
import pytest

pytest.importorskip("cuda.bindings")

from support import cuda_graphs
from support.cuda_graphs import (
    Executable,
    Gpu,
    Graph,
    Stream,
    capture,
    capture_of,
)
from support.operands import DTYPES
from support.products import assert_products_bit_equal
from support.raw_layer import RawLayer

from graphsafe_gg import raw
from graphsafe_gg.testing import size_patterns

pytestmark = pytest.mark.gpu

M, G = 190, 6
ALL_SIZES = list({**size_patterns(G, M), **size_patterns(G, M, 1)}.values())


@pytest.fixture
def gpu():
    opened = Gpu()
    yield opened
    opened.close()


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", DTYPES)
def test_raw_graph_replays_with_other_sizes(gpu, dtype):
    """Into NaN, from operands with NaN past the sum: the bits of the eager run."""
    stream, layer = Stream(), RawLayer(gpu, dtype)
    executable = Executable(capture_of(stream, layer.enqueue))
    for sizes in ALL_SIZES:
        layer.set_sizes(sizes, stream)
        executable.launch(stream)
        replayed = layer.check(stream, f"{list(sizes)}: ")
        layer.set_sizes(sizes, stream)
        layer.enqueue(stream)
        assert_products_bit_equal(replayed, layer.check(stream))


def test_raw_graph_holds_a_kernel_a_product_and_two_nodes_a_copy(gpu):
    layer = RawLayer(gpu, jnp.bfloat16)
    graph = capture_of(Stream(), layer.enqueue)
    assert graph.node_types() == ["EVENT_RECORD", *["KERNEL"] * 4]


@pytest.mark.sanitizer
def test_raw_graph_launches_in_flight_end_with_the_last_sizes(gpu):
    stream, layer = Stream(), RawLayer(gpu, jnp.bfloat16)
    executable = Executable(capture_of(stream, layer.enqueue))
    layer.set_sizes(ALL_SIZES[0], stream)
    for _ in range(20):
        executable.launch(stream)
    layer.check(stream)


def test_raw_graph_update_goes_to_other_operands_and_another_slot(gpu):
    """Both layers' slots are held as long as the executable needs them."""
    stream = Stream()
    first, second = (RawLayer(gpu, jnp.bfloat16, seed=seed) for seed in (1, 2))
    graphs = [capture_of(stream, layer.enqueue) for layer in (first, second)]
    executable = Executable(graphs[0])
    first.set_sizes(ALL_SIZES[0], stream)
    executable.launch(stream)
    first.check(stream)
    executable.update(graphs[1])
    for graph in graphs:
        graph.destroy()
    for sizes in ALL_SIZES:
        second.set_sizes(sizes, stream)
        executable.launch(stream)
        second.check(stream)


def test_raw_graph_clones_run_as_children_of_another_graph(gpu):
    """Two layers in one parent; the graphs they were captured in are gone."""
    stream = Stream()
    layers = [RawLayer(gpu, dtype, seed=i) for i, dtype in enumerate(DTYPES)]
    children = [capture_of(stream, layer.enqueue) for layer in layers]
    parent = Graph.of_children(*children)
    executable = Executable(parent)
    for graph in (*children, parent):
        graph.destroy()
    for index in range(len(ALL_SIZES)):
        for shift, layer in enumerate(layers):
            layer.set_sizes(ALL_SIZES[(index + shift) % len(ALL_SIZES)], stream)
        executable.launch(stream)
        for layer in layers:
            layer.check(stream)


def test_raw_graph_slot_outlives_its_owner(gpu):
    """What a graph still writes to goes to no other slot."""
    stream, layer = Stream(), RawLayer(gpu, jnp.bfloat16)
    executable = Executable(capture_of(stream, layer.enqueue))
    layer.set_sizes(ALL_SIZES[0], stream)
    layer.slot = None
    other = raw.Slot(G)
    executable.launch(stream)
    stream.synchronize()
    with pytest.raises(ValueError, match="no copy has run"):
        other.wait()
    executable.destroy()


def test_raw_graph_with_the_products_on_a_forked_stream(gpu):
    stream, side, layer = Stream(), Stream(), RawLayer(gpu, jnp.bfloat16)
    graph = capture_of(stream, lambda stream: layer.enqueue_forked(stream, side))
    executable = Executable(graph)
    for sizes in ALL_SIZES:
        layer.set_sizes(sizes, stream)
        executable.launch(stream)
        layer.check(stream)


def test_raw_calls_do_not_disturb_a_global_capture_of_another_thread(gpu):
    """A new slot, loading, eager calls, a wait and a capture of ours meanwhile."""
    theirs, stream = Stream(), Stream()
    begun, done = threading.Event(), threading.Event()
    layer = RawLayer(gpu, jnp.bfloat16)
    layer.set_sizes(ALL_SIZES[0], stream)
    other = gpu.put(layer.host.lhs)
    captured = []

    def capture_globally():
        Gpu()
        with capture(theirs, cuda_graphs.GLOBAL) as graphs:
            gpu.fill_nan(other, theirs)
            begun.set()
            done.wait(30)
        captured.extend(graphs)

    thread = threading.Thread(target=capture_globally)
    thread.start()
    begun.wait(30)
    try:
        slot = raw.Slot(G, name="raw.beside")
        fresh = [
            dataclasses.replace(array, dtype=jnp.float16)
            for array in (layer.lhs, layer.rhs, layer.results.out)
        ]
        raw.initialize_grouped_gemm(*fresh[:2], layer.sizes, fresh[2])
        raw.copy_group_sizes(stream, layer.sizes, slot)
        assert slot.wait().tolist() == list(ALL_SIZES[0])
        layer.enqueue(stream)
        layer.slot.wait()
        ours = capture_of(stream, layer.enqueue)
    finally:
        done.set()
        thread.join()
    assert [graph.node_types() for graph in captured] == [["MEMSET"]]
    layer.check(stream, "eager: ")
    executable = Executable(ours)
    layer.set_sizes(ALL_SIZES[1], stream)
    executable.launch(stream)
    layer.check(stream, "replayed: ")
