# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K33: a layer exported with its gradient for another process, and donation.

P-103 is about the order of copies: a layer adds none to that of the operation.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.layer_case import TOP_K, assert_trees_close, random_layer

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", ["device", "async"])
LOADER = """
import sys
import jax, jax.export
import numpy as np
import graphsafe_gg

layer = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
operands = [value for _, value in sorted(np.load(sys.argv[2]).items())]
out, pull = jax.vjp(lambda *a: layer.call(*a), *operands)
np.savez(sys.argv[3], out, *pull(out))
"""


def layer_of(mode):
    return jax.jit(lambda *operands: gg.moe_mlp(*operands, top_k=TOP_K, mode=mode))


@modes
def test_p102_exported_layer_runs_elsewhere(tmp_path, mode):
    """P-102: serialised with its vjp, loaded and run by a new process."""
    operands, layer = random_layer(), layer_of(mode)
    exported = jax.export.export(layer, disabled_checks=gg.export_safety_checks())
    files = [str(tmp_path / name) for name in ("layer", "in.npz", "out.npz")]
    (tmp_path / "layer").write_bytes(exported(*operands).serialize(vjp_order=1))
    np.savez(files[1], *operands)
    subprocess.run([sys.executable, "-c", LOADER, *files], check=True, cwd=tmp_path)
    found = [value for _, value in sorted(np.load(files[2]).items())]
    out, pull = jax.vjp(layer, *operands)
    assert_trees_close(found, [out, *pull(out)])


@modes
def test_p104_donated_operands(device, mode):
    """P-104: donated tokens and weights; the result is right, the names are dead."""
    operands = random_layer()
    expected = layer_of(mode)(*operands)
    arrays = [jnp.asarray(operand) for operand in operands]
    call = lambda *a: gg.moe_mlp(*a, top_k=TOP_K, mode=mode)  # noqa: E731
    out = jax.jit(call, donate_argnums=0)(*arrays)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises((RuntimeError, ValueError), match=r"deleted|donated"):
        arrays[0] + 1
