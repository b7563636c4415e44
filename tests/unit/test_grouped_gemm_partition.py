# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A plain sharded jit on 8 devices: k and n are partitioned, the rest is refused.

The devices are CPUs of a process of their own, which the tests of this file share.
K32, P-100: nothing is gathered in silence.
"""

import json
import re

import pytest
from support.child_process import output_of

PROGRAM = """
import json
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
import graphsafe_gg as gg

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
rng = np.random.default_rng(0)
M, K, N, G = 24, 16, 32, 4
SIZES = np.array([5, 0, 9, 6], np.int32)
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute")

def normal(*shape, dtype="float32"):
    return rng.standard_normal(shape, np.float32).astype(dtype)

def put(array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))

def run(call, *operands):
    # What it gives, and what its program sends.
    whole = jax.jit(call)(*(np.asarray(a) for a, _ in operands))
    sharded = [put(a, *spec) for a, spec in operands]
    try:
        text = jax.jit(call).lower(*sharded).compile().as_text()
        out = jax.jit(call)(*sharded)
    except Exception as error:
        return {"error": str(error), "type": type(error).__name__}
    outs = [np.asarray(x, np.float32) for x in jax.tree.leaves(out)]
    wholes = [np.asarray(x, np.float32) for x in jax.tree.leaves(whole)]
    return {
        "spec": [str(x.sharding.spec) for x in jax.tree.leaves(out)],
        "error": max(float(abs(a - b).max()) for a, b in zip(outs, wholes)),
        "sent": {name: text.count(f" {name}(") for name in COLLECTIVES},
        "calls": text.count('custom_call_target="graphsafe_gg_'),
    }

def product(**options):
    return lambda lhs, rhs, sizes: gg.grouped_gemm(lhs, rhs, sizes, **options)

lhs, rhs, dout = normal(M, K), normal(G, K, N), normal(M, N)
turned = rhs.swapaxes(1, 2).copy()
sizes = (SIZES, ())

def gradients(lhs, rhs, sizes, dout):
    out, pullback = jax.vjp(lambda a, b: gg.grouped_gemm(a, b, sizes), lhs, rhs)
    return pullback(dout)

def with_bias(lhs, rhs, sizes, bias):
    return gg.grouped_gemm(lhs, rhs, sizes, bias=bias)

cases = {
    "whole": (product(), (lhs, ()), (rhs, ()), sizes),
    "n": (product(), (lhs, ()), (rhs, (None, None, "x")), sizes),
    "n by both": (product(), (lhs, ()), (rhs, (None, None, ("x", "y"))), sizes),
    "n transposed": (
        product(transpose_rhs=True), (lhs, ()), (turned, (None, "x")), sizes
    ),
    "k": (product(), (lhs, (None, "x")), (rhs, (None, "x")), sizes),
    "k of lhs alone": (product(), (lhs, (None, "x")), (rhs, ()), sizes),
    "k and n": (product(), (lhs, (None, "x")), (rhs, (None, "x", "y")), sizes),
    "k apart from n": (product(), (lhs, (None, "x")), (rhs, (None, None, "y")), sizes),
    "k in bfloat16": (
        product(), (lhs.astype("bfloat16"), (None, "x")),
        (rhs.astype("bfloat16"), (None, "x")), sizes
    ),
    "bias": (
        with_bias, (lhs, ()), (rhs, (None, None, "x")), sizes, (normal(G, N), ())
    ),
    "layers": (
        product(layer=1), (lhs, ()),
        (normal(2, G, K, N), (None, None, None, "x")), sizes
    ),
    "offset": (
        product(group_offset=1), (lhs, ()), (rhs[:2], (None, None, "x")), sizes
    ),
    "traced offset": (
        lambda l, r, s, o: gg.grouped_gemm(l, r, s, group_offset=o), (lhs, ()),
        (rhs[:2], (None, None, "x")), sizes, (np.int32([2]), ())
    ),
    "async": (product(mode="async"), (lhs, ()), (rhs, (None, None, "x")), sizes),
    "gradient, n": (
        gradients, (lhs, ()), (rhs, (None, None, "x")), sizes, (dout, (None, "x"))
    ),
    "gradient, k": (
        gradients, (lhs, (None, "x")), (rhs, (None, "x")), sizes, (dout, ())
    ),
    "mapped": (
        jax.vmap(gg.grouped_gemm, (0, None, None)), (np.stack([lhs, -lhs]), ()),
        (rhs, (None, None, "x")), sizes
    ),
    "rows": (product(), (lhs, ("x",)), (rhs, ()), sizes),
    "groups": (product(), (lhs, ()), (rhs, ("x",)), sizes),
    "one axis for k and n": (
        product(), (lhs, (None, "x")), (rhs, (None, None, "x")), sizes
    ),
    "two axes for k": (product(), (lhs, (None, "x")), (rhs, (None, "y")), sizes),
    "bias and k": (
        with_bias, (lhs, (None, "x")), (rhs, (None, "x")), sizes, (normal(G, N), ())
    ),
    "rows of dout": (gradients, (lhs, ()), (rhs, ()), sizes, (dout, ("x",))),
}
results = {name: run(*case) for name, case in cases.items()}

auto, explicit = mesh, (AxisType.Explicit,) * 2
mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=explicit)
with jax.set_mesh(mesh):
    for name in ("n", "k", "rows", "groups", "gradient, n"):
        results["explicit " + name] = run(*cases[name])
    results["explicit ragged_dot"] = run(
        gg.ragged_dot, (lhs, ()), (rhs, (None, None, "x")), sizes
    )
    contracting = jax.lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    results["explicit ragged_dot_general"] = run(
        lambda l, d, s: gg.ragged_dot_general(l, d, s, contracting),
        (lhs, ()), (dout, (None, "x")), sizes
    )
mesh = auto

@jax.shard_map(
    mesh=mesh, in_specs=(P("y"), P(), P("y")), out_specs=P("y"), axis_names={"y"}
)
def partly_manual(lhs, rhs, sizes):
    return gg.grouped_gemm(lhs, rhs, sizes[0])

halves = np.array([[2, 3, 0, 6], [1, 0, 9, 2]], np.int32)
results["partly manual"] = run(
    partly_manual, (lhs, ("y",)), (rhs, (None, None, "x")), (halves, ("y",))
)
print(json.dumps(results))
"""

NOTHING = {
    "all-gather": 0,
    "all-reduce": 0,
    "all-to-all": 0,
    "collective-permute": 0,
}


@pytest.fixture(scope="module")
def results():
    flags = "--xla_force_host_platform_device_count=8"
    text = output_of(PROGRAM, env={"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags})
    return json.loads(text.splitlines()[-1])


@pytest.mark.parametrize(
    ("case", "spec"),
    [
        ("whole", "()"),
        ("n", "(None, 'x')"),
        ("n by both", "(None, ('x', 'y'))"),
        ("n transposed", "(None, 'x')"),
        ("bias", "(None, 'x')"),
        ("layers", "(None, 'x')"),
        ("offset", "(None, 'x')"),
        ("traced offset", "(None, 'x')"),
        ("async", "(None, 'x')"),
        ("explicit n", "(None, 'x')"),
        ("explicit ragged_dot", "(None, 'x')"),
        ("explicit ragged_dot_general", "(None, None, 'x')"),
        ("partly manual", "('y', 'x')"),
    ],
)
def test_grouped_gemm_partition_of_n_sends_nothing(results, case, spec):
    result = results[case]
    assert result["error"] == 0
    assert result["sent"] == NOTHING
    assert result["calls"] >= 1
    assert [s.replace("PartitionSpec", "").lstrip("P") for s in result["spec"]] == [
        spec
    ]


@pytest.mark.parametrize(
    ("case", "tolerance"),
    [
        ("k", 1e-5),
        ("k of lhs alone", 1e-5),
        ("k and n", 1e-5),
        ("k apart from n", 1e-5),
        ("k in bfloat16", 0.04),
        ("explicit k", 1e-5),
    ],
)
def test_grouped_gemm_partition_of_k_adds_up_once(results, case, tolerance):
    """Partial sums are float32: of bfloat16 operands too."""
    result = results[case]
    assert result["error"] <= tolerance
    assert result["sent"] == NOTHING | {"all-reduce": 1}


@pytest.mark.parametrize("case", ["gradient, n", "gradient, k", "explicit gradient, n"])
def test_grouped_gemm_partition_of_gradients(results, case):
    """One of them adds up over the sharded axis; no operand is gathered."""
    result = results[case]
    assert result["error"] <= 1e-5
    assert result["sent"]["all-gather"] == 0
    assert result["sent"]["all-to-all"] == 0


def test_grouped_gemm_partition_of_a_mapped_call(results):
    assert results["mapped"]["error"] <= 1e-6
    assert results["mapped"]["sent"]["all-gather"] == 0


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (
            "rows",
            "grouped_gemm: the rows of lhs must not be sharded under a plain jit; got "
            "m. Which group a row is in depends on all sizes before it: use "
            "jax.shard_map with the sizes of each shard's own rows.",
        ),
        (
            "rows of dout",
            "must not be sharded under a plain jit; got m. Which group a row is in",
        ),
        (
            "groups",
            "grouped_gemm: the groups of rhs must not be sharded under a plain jit; "
            "got g. Use jax.shard_map with group_offset for the experts of each "
            "device.",
        ),
        (
            "one axis for k and n",
            "grouped_gemm: k and n must be sharded over different mesh axes; got one. "
            "Replicate one of them: jax.lax.with_sharding_constraint.",
        ),
        (
            "two axes for k",
            "grouped_gemm: k of both operands must be sharded in one way; got two. "
            "Constrain them to the same mesh axes.",
        ),
        (
            "bias and k",
            "grouped_gemm: bias must not meet a sharded k; got both. Add it to the "
            "result.",
        ),
    ],
)
def test_grouped_gemm_partition_refuses(results, case, text):
    """When it is compiled, in XLA's partitioner, so that JAX chooses the type."""
    assert results[case]["type"] == "JaxRuntimeError"
    assert re.sub(r"\s+", " ", text) in re.sub(r"\s+", " ", results[case]["error"])


@pytest.mark.parametrize("case", ["explicit rows", "explicit groups"])
def test_grouped_gemm_partition_refuses_explicit_axes_when_traced(results, case):
    """Types tell: no compiler is needed."""
    assert results[case]["type"] == "ValueError"
    text = "must not be sharded under a plain jit"
    assert text in results[case]["error"]
