# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables, each read in a process of its own."""

import pytest
from support.child_process import output_of, run_python

CALL = """
import numpy as np
import jax
import graphsafe_gg as gg
operands = (
    np.ones((4, 3), np.float32), np.ones((2, 3, 5), np.float32), np.array([1, 2])
)
"""
CPU = {"JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("GG_ON_BAD_SIZES", "ignore", "be one of 'log', 'raise', 'check'"),
        ("GG_MODE", "fast", "be one of '', 'sync', 'device'"),
        ("GG_DISABLE", "yes", "be one of '', '0', '1'"),
        ("GG_WAIT_DEADLINE_S", "soon", "be a number of seconds >= 0"),
        ("GG_WAIT_DEADLINE_S", "-1", "be a number of seconds >= 0"),
    ],
)
def test_runtime_config_bad_value(name, value, rule):
    """Importing fails with the name, what it may be, and what it was."""
    done = run_python("import graphsafe_gg", env={**CPU, name: value})
    assert done.returncode != 0
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line == (
        f"ValueError: graphsafe_gg: {name} must {rule}; got {value!r}. "
        "Correct or unset it."
    )


def test_runtime_config_forced_mode():
    """GG_MODE overrules the argument of every call, and stats() says so."""
    code = (
        CALL
        + """
text = jax.jit(lambda *a: gg.grouped_gemm(*a, mode="device")).lower(*operands).as_text()
print(text.count("graphsafe_gg_grouped_gemm_sync_v2"), gg.stats()["config"]["GG_MODE"])
"""
    )
    assert output_of(code, env={**CPU, "GG_MODE": "sync"}).split() == ["1", "sync"]


def test_runtime_config_disabled():
    """GG_DISABLE=1 leaves no call of ours in the program, and the same values."""
    code = (
        CALL
        + """
function = jax.jit(gg.grouped_gemm)
text = function.lower(*operands).as_text()
print("graphsafe_gg" in text, function(*operands)[:, 0].tolist())
print(gg.explain(function)(*operands))
"""
    )
    printed = output_of(code, env={**CPU, "GG_DISABLE": "1"}).splitlines()
    assert printed[0] == "False [3.0, 3.0, 3.0, 0.0]"
    assert printed[2] == (
        "  mode device on cpu x86-64: jax.lax.ragged_dot; experimental: GG_DISABLE=1"
    )


def test_runtime_config_disabled_with_every_operand():
    """bias, group_offset and layer mean the same through lax.ragged_dot."""
    code = """
import jax, jax.numpy as jnp, numpy as np
import graphsafe_gg as gg
rng = np.random.default_rng(0)
arrays = [rng.standard_normal(s, np.float32) for s in ((9, 4), (3, 2, 5, 4), (3, 2, 5))]
lhs, rhs, bias = arrays
call = jax.jit(lambda offset, layer: gg.grouped_gemm(
    lhs, rhs, np.array([1, 3, 0, 2]), transpose_rhs=True, bias=bias,
    group_offset=offset, layer=layer))
for offset in range(3):
    print(np.asarray(call(jnp.int32(offset), jnp.int32(2))).round(4).tolist())
"""
    printed = [
        output_of(code, env={**CPU, "GG_DISABLE": value}) for value in ("0", "1")
    ]
    assert printed[0].count("[") == 30
    assert printed[0] == printed[1]


def test_runtime_config_disabled_under_transformations():
    """vmap and derivatives are those of the enabled operation, of ragged_dot too."""
    code = """
import jax, jax.numpy as jnp, numpy as np
import graphsafe_gg as gg
rng = np.random.default_rng(0)
lhs, rhs = rng.standard_normal((3, 9, 4), np.float32), rng.standard_normal((2, 4, 5))
sizes = np.array([[1, 3, 0, 5], [0, 0, 0, 0], [2, 2, 2, 2]])

def loss(lhs, rhs, sizes, offset):
    lhs, sizes = gg.copy_group_sizes(sizes, before=lhs)
    out = gg.grouped_gemm(lhs, rhs, sizes, group_offset=offset, mode="async")
    return jnp.sum(jnp.sin(out))

def total(rhs):
    out = jax.vmap(gg.ragged_dot, in_axes=(0, None, None))(lhs, rhs, sizes[0, :2])
    return jnp.sum(jnp.sin(out))

gradient = jax.vmap(jax.grad(loss, argnums=(0, 1)), in_axes=(0, None, 0, 0))
args = lhs, rhs.astype(np.float32), sizes, jnp.array([2, 0, 1])
text = jax.jit(gradient).lower(*args).as_text()
print("graphsafe_gg" in text)
for part in (*gradient(*args), jax.grad(total)(args[1])):
    print(np.asarray(part).round(4).tolist())
"""
    printed = [
        output_of(code, env={**CPU, "GG_DISABLE": value}) for value in ("0", "1")
    ]
    assert [text.split()[0] for text in printed] == ["True", "False"]
    assert len(printed[0].split("\n", 1)[1]) > 1000
    assert printed[0].split("\n", 1)[1] == printed[1].split("\n", 1)[1]
