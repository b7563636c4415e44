# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`jax.export`: a program is written in one process and run in another."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from support.child_process import output_of, run_python
from support.operands import MODES, random_operands
from support.products import run_products

import graphsafe_gg as gg

# JAX serialises with it; the extra "test" brings it.
pytest.importorskip("flatbuffers")

OPERANDS = random_operands([3, 0, 9, 1], 15)
SHAPES = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in OPERANDS]

LOAD = """
import sys
import numpy as np
from jax import export
import graphsafe_gg as gg
exported = export.deserialize(open({program!r}, "rb").read())
operands = [np.load({program!r} + f".{{i}}.npy") for i in range(4)]
for i, result in enumerate(exported.call(*operands)):
    np.save({program!r} + f".out{{i}}.npy", np.asarray(result))
print(exported.platforms)
"""


def exported_products(mode="device", **options):
    def call(lhs, rhs, sizes, dout):
        return tuple(run_products(lhs, rhs, sizes, dout, mode=mode, name="exported"))

    checks = gg.export_safety_checks()
    return export.export(jax.jit(call), disabled_checks=checks, **options)(*SHAPES)


@pytest.mark.parametrize("mode", MODES)
def test_export_runs_in_another_process(device, mode, tmp_path):
    """The call and both gradients, to the last bit."""
    path = str(tmp_path / "program")
    with open(path, "wb") as file:
        file.write(exported_products(mode).serialize())
    for i, array in enumerate(OPERANDS):
        np.save(f"{path}.{i}.npy", array)
    output_of(LOAD.format(program=path), device=device)
    for i, wanted in enumerate(run_products(*OPERANDS, mode=mode)):
        np.testing.assert_array_equal(np.load(f"{path}.out{i}.npy"), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_export_for_both_platforms_at_once(mode):
    """On a machine without a GPU too; one file holds both."""
    exported = exported_products(mode, platforms=["cpu", "cuda"])
    again = export.deserialize(exported.serialize())
    assert again.platforms == ("cpu", "cuda")
    text = again.mlir_module()
    assert f"graphsafe_gg_grouped_gemm_{'device' if mode == 'auto' else mode}" in text


def test_export_copies_have_events_only_where_a_product_waits():
    """The program may be called in a branch, where a captured copy must have none."""

    def target_of(mode):
        def call(lhs, rhs, sizes):
            lhs, sizes = gg.copy_group_sizes(sizes, before=lhs)
            return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

        checks = gg.export_safety_checks()
        text = export.export(jax.jit(call), disabled_checks=checks)(*SHAPES[:3])
        return re.findall(r"group_sizes_(\w+)_v1", text.mlir_module())

    assert target_of("device") == ["ticket"]
    assert target_of("async") == ["copy"]


def test_export_needs_the_checks_disabled():
    """What the helper is for."""
    with pytest.raises(ValueError, match="Cannot serialize code with custom calls"):
        export.export(run_products)(*SHAPES)


def test_export_checks_name_every_target_and_no_other():
    named = {str(check) for check in gg.export_safety_checks()}
    assert all("graphsafe_gg_" in name for name in named)
    assert any("grouped_gemm_async" in name for name in named)
    assert any("group_sizes_copy" in name for name in named)


def test_export_to_a_process_without_the_package_says_so(tmp_path):
    """It fails when it is compiled, and names the target."""
    path = tmp_path / "program"
    path.write_bytes(exported_products(platforms=["cpu"]).serialize())
    code = LOAD.format(program=str(path)).replace("import graphsafe_gg as gg\n", "")
    for i, array in enumerate(OPERANDS):
        np.save(f"{path}.{i}.npy", array)
    done = run_python(code, env={"JAX_PLATFORMS": "cpu"})
    assert done.returncode != 0
    assert "graphsafe_gg_" in done.stderr


def test_export_with_symbolic_rows(device):
    """One program for any number of rows."""
    (m,) = export.symbolic_shape("m")
    lhs, rhs, sizes, _ = OPERANDS
    shapes = [jax.ShapeDtypeStruct((m, lhs.shape[1]), lhs.dtype), *SHAPES[1:3]]
    call = jax.jit(lambda *a: gg.grouped_gemm(*a, name="symbolic"))
    checks = gg.export_safety_checks()
    exported = export.export(call, disabled_checks=checks)(*shapes)
    for rows in (13, 15, 40):
        padded = np.zeros((rows, lhs.shape[1]), np.float32)
        padded[:13] = lhs[:13]
        out = exported.call(padded, rhs, sizes)
        np.testing.assert_array_equal(out, gg.grouped_gemm(padded, rhs, sizes))


@pytest.mark.parametrize("axes", [(0, None, None), (0, None, 0), (0, 0, 0)])
@pytest.mark.parametrize("size_dtype", [np.uint8, np.int32])
def test_export_of_a_mapped_call_with_symbolic_rows(device, axes, size_dtype):
    """Batch and rows are known when the program is called."""
    batch, m = export.symbolic_shape("batch, m")
    lhs, rhs, sizes, _ = OPERANDS
    sizes = sizes.astype(size_dtype)

    def gradient(lhs, rhs, sizes):
        out = jax.vmap(gg.grouped_gemm, in_axes=axes)(lhs, rhs, sizes)
        return jnp.sum(jnp.sin(out))

    shapes = [(m, *lhs.shape[1:]), rhs.shape, sizes.shape]
    dims = [(batch,) if axis == 0 else () for axis in axes]
    step = jax.jit(jax.grad(gradient, argnums=(0, 1)))
    exported = export.export(step, disabled_checks=gg.export_safety_checks())(
        *(
            jax.ShapeDtypeStruct((*lead, *shape), array.dtype)
            for lead, shape, array in zip(dims, shapes, (lhs, rhs, sizes), strict=True)
        )
    )
    arrays = [
        np.stack([array, array]) if axis == 0 else array
        for axis, array in zip(axes, (lhs, rhs, sizes), strict=True)
    ]
    for got, wanted in zip(exported.call(*arrays), step(*arrays), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6)
