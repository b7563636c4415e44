# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled by the driver from their PTX, as on a GPU newer than the build."""

import pytest
from support import child_process

pytestmark = pytest.mark.gpu

# XLA's own kernels have no PTX, so the child launches ours alone, on a raw stream.
CODE = """
import sys; sys.path.insert(0, {tests!r})
import jax, jax.numpy as jnp, numpy as np
from support.guarded import Guarded, launch
from support.operands import random_operands
from graphsafe_gg.testing import assert_close, reference_grouped_gemm
device = jax.devices()[0]
for sizes, m, k, n in (([3, 0, 1, 9], 16, 200, 136), ([70, 0, 600], 701, 136, 264)):
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32):
        for transpose_rhs in (False, True):
            options = {{"transpose_rhs": transpose_rhs}}
            operands = random_operands(sizes, m, k, n, dtype, **options)
            arrays = [np.asarray(array) for array in operands]
            lhs, rhs, group_sizes, dout = arrays
            held = [Guarded(device, a.shape, a.dtype, 0, a) for a in arrays[:3]]
            out = Guarded(device, (m, n), lhs.dtype, 0)
            launch(device, False, [a.array for a in (*held, out)], **options)
            truth = reference_grouped_gemm(lhs, rhs, group_sizes, **options)
            assert_close(out.read(), truth)
print("right")
"""


def test_device_ptx_is_right(device):
    tests = child_process.__file__.rsplit("/", 2)[0]
    env = {"CUDA_FORCE_PTX_JIT": "1", "CUDA_CACHE_DISABLE": "1"}
    code = CODE.format(tests=tests)
    assert child_process.output_of(code, device=device, env=env).strip() == "right"
