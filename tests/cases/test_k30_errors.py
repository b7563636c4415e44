# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K30: clear errors of the operation, and decisions that can be asked for."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.child_process import output_of

import graphsafe_gg as gg
from graphsafe_gg.api.capabilities import capability

F32 = np.float32


def test_p093_registration_is_there_before_any_lowering():
    """P-093: in a fresh and in a forked process, before and after a backend starts."""
    code = """
import multiprocessing
import numpy as np
import jax
jax.numpy.zeros(1).block_until_ready()  # a backend is up before the import
import graphsafe_gg as gg

def total(_):
    out = gg.grouped_gemm(
        np.ones((3, 2), np.float32), np.ones((2, 2, 4), np.float32), np.array([1, 2])
    )
    return float(out.sum())

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(total(0), pool.map(total, [0]))
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        runner = f"import runpy; runpy.run_path({file.name!r}, run_name='__main__')"
        assert output_of(runner, env={"JAX_PLATFORMS": "cpu"}).strip() == "24.0 [24.0]"


CASES = {
    "pair of types": (
        TypeError,
        lambda: (np.ones((4, 3), "float16"), jnp.ones((2, 3, 5), "bfloat16"), [1, 1]),
        "rhs must have lhs's dtype float16; got bfloat16",
    ),
    "int8": (
        TypeError,
        lambda: (np.ones((4, 3), np.int8), np.ones((2, 3, 5), np.int8), [1, 1]),
        "lhs must be bfloat16, float16 or float32; got int8",
    ),
    "rank": (
        ValueError,
        lambda: (np.ones((1, 4, 3), F32), np.ones((2, 3, 5), F32), [1, 1]),
        r"lhs must have shape \(m, k\); got \(1, 4, 3\)",
    ),
    "k": (
        ValueError,
        lambda: (np.ones((4, 3), F32), np.ones((2, 4, 5), F32), [1, 1]),
        r"rhs must have shape \(g, 3, n\) to match lhs; got \(2, 4, 5\)",
    ),
    "groups": (
        ValueError,
        lambda: (np.ones((4, 3), F32), np.ones((2, 3, 5), F32), [1, 1, 1]),
        "group_sizes must have one entry for each of the 2 groups of rhs",
    ),
    "sizes of two axes": (
        ValueError,
        lambda: (np.ones((4, 3), F32), np.ones((2, 3, 5), F32), [[1, 1]]),
        r"group_sizes must have shape \(g,\); got \(1, 2\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_p094_each_mistake_has_its_own_message(case):
    """P-094: at trace time, with argument and shapes."""
    error, operands, text = CASES[case]
    lhs, rhs, sizes = operands()
    with pytest.raises(error, match=f"^grouped_gemm: {text}"):
        jax.jit(gg.grouped_gemm).lower(lhs, rhs, np.array(sizes))


def test_p095_the_decision_can_be_asked_for():
    """P-095: bias, types, no groups, many groups, a CPU: which path, and why. 8-bit
    types and float64 raise before there is a decision."""
    sizes = jax.ShapeDtypeStruct((4096,), jnp.int32)

    def decision(platform, dtype, num_groups, **options):
        lhs = jax.ShapeDtypeStruct((8, 16), dtype)
        rhs = jax.ShapeDtypeStruct((num_groups, 16, 24), dtype)

        def call(lhs, rhs, sizes):
            bias = jnp.zeros((num_groups, 24), dtype) if options else None
            return gg.grouped_gemm(lhs, rhs, sizes[:num_groups], bias=bias)

        explained = gg.explain(call, platform=platform, compute_capability=90)
        (only,) = explained(lhs, rhs, sizes).calls
        return only.capability.path, only.capability.status

    kernel = "one kernel that reads the sizes"
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32):
        name = jnp.dtype(dtype).name
        of_table = capability("cuda", "sm_90", name, "forward", "device").status
        for num_groups in (0, 1, 8, 4096):
            assert decision("cuda", dtype, num_groups) == (kernel, of_table)
        assert decision("cuda", dtype, 8, bias=True) == (kernel, "experimental")
        of_table = capability("cpu", "x86-64", name, "forward", "device").path
        assert decision("cpu", dtype, 8) == (of_table, "stable")
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match="float64"):
        decision("cuda", jnp.float64, 8)
    with pytest.raises(TypeError, match="float8_e4m3fn"):
        decision("cuda", jnp.float8_e4m3fn, 8)
