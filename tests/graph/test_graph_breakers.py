# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Steps that are not graph-safe: what breaks them is named, with reason and advice."""

import graph_steps as steps
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from graphsafe_gg.testing import assert_graph_safe, inspect_graph

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.slow]


def message(fn, *args, **options):
    with pytest.raises(AssertionError) as error:
        assert_graph_safe(fn, *args, **options)
    return str(error.value)


def through_python(x, index):
    if index != 1:
        return x
    return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def printing(x, index):
    if index == 1:
        jax.debug.print("first token {}", x[0, 0])
    return x


@pytest.mark.parametrize(
    ("broken", "primitive"),
    [(through_python, "pure_callback"), (printing, "debug_print")],
)
def test_breakers_callback_in_a_decode_step(broken, primitive):
    text = message(steps.unrolled("device", broken), *steps.unrolled_args(2))
    assert text.startswith("assert_graph_safe: decode_step must run as CUDA graphs")
    assert "blocks the host: a callback runs Python on the host." in text
    assert f"jit(decode_step)/{primitive}" in text
    # The layers are not at fault.
    assert "gate_up" not in text


def test_breakers_ordered_callback_in_a_scan():
    def step(x, w, sizes):
        def body(x, _):
            jax.debug.print("turn {}", x[0, 0], ordered=True)
            return steps.pair(x, w, sizes), None

        return jax.lax.scan(body, x, length=3)[0]

    text = message(step, *steps.PAIR_ARGS)
    assert "blocks the host: a callback runs Python on the host." in text
    assert "body" in text


def test_breakers_one_sync_call_in_a_decode_step():
    def step(x, w, sizes):
        for index in range(3):
            mode = "sync" if index == 1 else "device"
            x = steps.pair(x, w, sizes, mode, f"pair{index}")
            x = steps.normalise(jnp.tanh(x @ w[0]) @ w[1])
        return x

    text = message(step, *steps.PAIR_ARGS)
    named = [f"pair{i}.{part}" for i in range(3) for part in ("up", "down")]
    assert [name for name in named if repr(name) in text] == ["pair1.up", "pair1.down"]
    assert "mode sync" in text
    assert "Use mode='device'" in text


def test_breakers_loop_of_unknown_length():
    def step(x, w, sizes):
        def go_on(x):
            return jnp.sum(x.astype(jnp.float32)) < 1e3

        def body(x):
            return steps.normalise(steps.pair(steps.pair(x, w, sizes), w, sizes))

        return jax.lax.while_loop(go_on, body, x)

    text = message(step, *steps.PAIR_ARGS)
    assert "its trip count is unknown: the host reads the predicate" in text
    assert "jit(step)/while" in text
    assert "pair.up" not in text


def test_breakers_conditional_with_a_sync_branch():
    def step(x, w, sizes):
        x = jax.lax.cond(
            x[0, 0] > 0, lambda x: steps.pair(x, w, sizes, "sync"), lambda x: x - 1, x
        )
        return steps.pair(steps.pair(x, w, sizes), w, sizes)

    text = message(step, *steps.PAIR_ARGS)
    assert "since a branch holds something that cannot be captured" in text
    assert "mode sync" in text


def test_breakers_operation_that_xla_never_captures():
    def step(x):
        return jnp.fft.fft(x).real

    args = (step, steps.shape(64, 64, dtype=jnp.float32))
    text = message(*args)
    assert "XLA cannot capture operations of kind kFft" in text
    assert_graph_safe(*args, allow=["^kFft$"])


def test_breakers_graphs_turned_off():
    text = message(
        steps.pair, *steps.PAIR_ARGS, xla_flags="--xla_gpu_enable_command_buffer="
    )
    assert "XLA's flags turn CUDA graphs off" in text
    assert "'pair.up'" in text


def test_breakers_call_in_a_short_run():
    text = message(steps.pair, *steps.PAIR_ARGS)
    assert "fewer than 5 operations that XLA can capture stand together here" in text
    assert_graph_safe(
        steps.pair,
        *steps.PAIR_ARGS,
        one_graph=True,
        xla_flags="--xla_gpu_graph_min_graph_size=1",
    )


def test_breakers_collective_between_devices():
    mesh = jax.sharding.AbstractMesh((2,), ("x",), axis_types=(AxisType.Auto,))

    def step(x, w, sizes):
        for _ in range(3):
            x = steps.pair(x, w, sizes)
        return jax.lax.psum(x, "x")

    split, whole = PartitionSpec("x"), PartitionSpec()
    sharded = jax.shard_map(
        step, mesh=mesh, in_specs=(split, whole, whole), out_specs=whole
    )
    x, w, sizes = steps.PAIR_ARGS
    args = (sharded, steps.shape(2 * x.shape[0], x.shape[1]), w, sizes)
    text = message(*args)
    assert "XLA's flags allow no COLLECTIVES in a graph" in text
    assert_graph_safe(*args, allow=["^kAllReduce"])


def test_breakers_handler_without_the_trait():
    """The check asks XLA about the handler: a name alone makes no call graph-safe."""
    x, w, sizes = steps.PAIR_ARGS
    indices = {"site": 1, "fallback": 0, "operands": 0, "group_offset": -1, "layer": -1}
    attributes = {name: np.int64(value) for name, value in indices.items()}
    attributes["transpose_rhs"] = False

    def step(x, w, sizes):
        for _ in range(3):
            call = jax.ffi.ffi_call("graphsafe_gg_grouped_gemm_device_v0", x)
            x = jnp.tanh(call(x, w, sizes, **attributes))
        return x

    text = message(step, x, w, sizes, imports=["graph_traitless_target"])
    assert "its handler is registered without the command-buffer trait" in text
    assert "grouped_gemm '#0000000000000001', mode device" in text


def test_breakers_large_sort_is_noted():
    report = inspect_graph(jnp.argsort, steps.shape(65536, dtype=jnp.int32))
    assert any("CUB's radix sort" in note for note in report.notes)
