# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`gg.explain`: each call, its problem, path and status, without running anything."""

import jax
import jax.numpy as jnp
import numpy as np

import graphsafe_gg as gg
from graphsafe_gg.api.capabilities import capability

LHS = jax.ShapeDtypeStruct((16, 8), jnp.bfloat16)
RHS = jax.ShapeDtypeStruct((4, 8, 6), jnp.bfloat16)
SIZES = jax.ShapeDtypeStruct((4,), jnp.int32)


def on_h200(fn):
    return gg.explain(fn, platform="cuda", compute_capability=90)


def test_explain_text_of_one_call():
    def step(lhs, rhs, sizes):
        return gg.grouped_gemm(lhs, rhs, sizes, name="experts")

    row = capability("cuda", "sm_90", "bfloat16", "forward", "device")
    assert str(on_h200(step)(LHS, RHS, SIZES)) == (
        "experts: forward bfloat16 -> bfloat16, m = 16, k = 8, n = 6, 4 groups as (g, "
        "k, n)\n"
        f"  mode device on cuda sm_90: {row.path}; {row.status}: {row.reason}\n"
        "  no host wait; captured in a CUDA graph"
    )


def test_explain_finds_calls_of_gradients_scans_and_branches():
    def layer(x, sizes):
        def body(x, weights):
            return jnp.tanh(gg.grouped_gemm(x, weights, sizes, name="scanned")), None

        stack = jnp.zeros((3, 4, 8, 8), jnp.bfloat16)
        x = jax.lax.scan(body, x, stack)[0]
        weights = stack[0]
        return jax.lax.cond(
            sizes[0] > 0,
            lambda x: gg.grouped_gemm(x, weights, sizes, name="branch"),
            lambda x: x,
            x,
        )

    calls = on_h200(jax.jit(layer))(LHS, SIZES).calls
    assert [call.site for call in calls] == ["scanned", "branch"]

    def loss(lhs, rhs, sizes):
        return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes, name="experts"))

    calls = on_h200(jax.grad(loss, (0, 1)))(LHS, RHS, SIZES).calls
    products = [call.problem.split()[0] for call in calls]
    assert sorted(products) == ["drhs", "forward", "forward"]
    assert {call.site for call in calls} == {"experts"}


def test_explain_of_modes_and_operands():
    def step(lhs, rhs, sizes, offset):
        plain = gg.grouped_gemm(lhs, rhs, sizes, mode="async", name="plain")
        lhs, copied = gg.copy_group_sizes(sizes, before=lhs)
        early = gg.grouped_gemm(lhs, rhs, copied, mode="async", name="early")
        local = gg.grouped_gemm(
            lhs, rhs[:2], sizes, group_offset=offset, mode="sync", name="local"
        )
        return plain, early, local

    lhs, rhs = (jax.ShapeDtypeStruct(x.shape, jnp.float32) for x in (LHS, RHS))
    offset = jax.ShapeDtypeStruct((), jnp.int32)
    plain, early, local = on_h200(step)(lhs, rhs, SIZES, offset).calls
    waits = "waits on the host; splits the CUDA graph"
    assert plain.notes == (
        waits,
        "no copy_group_sizes in front: copies the sizes at the call",
    )
    assert early.notes == (waits,)
    assert local.notes == (
        waits,
        "no cuBLASLt with bias, group_offset or layer",
        "waits for the traced group_offset or layer too",
    )
    assert local.problem.endswith("2 groups of 4 as (g, k, n)")
    of_table = capability("cuda", "sm_90", "float32", "forward", "async")
    assert early.capability.status == of_table.status
    assert local.capability.status == "experimental"


def test_explain_other_architectures_and_this_machine():
    def step(lhs, rhs, sizes):
        return gg.grouped_gemm(lhs, rhs, sizes, mode="sync")

    old = gg.explain(step, platform="cuda", compute_capability=70)(LHS, RHS, SIZES)
    assert old.calls[0].capability.status == "not built"
    assert "nothing; not built" in str(old)
    here = gg.explain(step, platform="cpu")(
        np.ones((16, 8), np.float32),
        np.ones((4, 8, 6), np.float32),
        np.array([1, 2, 3, 4]),
    )
    (call,) = here.calls
    assert call.capability.platform == "cpu"
    assert call.notes == ("on a CPU all modes are the same call",)
    assert call.site == "grouped_gemm[4x8x6 float32]"


def test_explain_of_a_function_without_calls():
    assert str(gg.explain(jnp.sin)(1.0)) == "no grouped call"
