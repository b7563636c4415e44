# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which threads compute on a CPU: XLA's, and none of BLAS's own."""

import pathlib

import pytest
from support.child_process import output_of

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/schedstat").exists(),
    reason="needs Linux's record of each thread's time",
)

PRELUDE = """
import ctypes, hashlib, os, pathlib, threading
from scipy.linalg import cython_blas

def tasks():
    return set(os.listdir("/proc/self/task"))

blas_threads = tasks() - {str(os.getpid())}
library = ctypes.CDLL(cython_blas.__file__)
num_blas_threads = getattr(library, "scipy_openblas_get_num_threads", None)

import numpy as np
import graphsafe_gg as gg

rng = np.random.default_rng(0)

def operands(sizes, k, n):
    lhs = rng.standard_normal((sum(sizes), k), np.float32)
    rhs = rng.standard_normal((len(sizes), k, n), np.float32)
    return lhs, rhs, np.array(sizes)
"""


def printed_by(code, **env):
    env = {name.upper(): value for name, value in env.items()}
    return output_of(PRELUDE + code, env={"JAX_PLATFORMS": "cpu", **env}).split()


def test_grouped_gemm_threads_any_number_gives_the_same_bits():
    """Of XLA's threads and of BLAS's: groups that are streamed, and those of BLAS."""
    code = """
import ml_dtypes
digest = hashlib.sha256()
for dtype in (np.float32, ml_dtypes.bfloat16):
    lhs, rhs, sizes = operands([700, 0, 130, 40, 20, 3, 1], 300, 600)
    lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    for rhs, transpose in ((rhs, False), (rhs.transpose(0, 2, 1).copy(), True)):
        out = gg.grouped_gemm(lhs, rhs, sizes, transpose_rhs=transpose)
        digest.update(np.asarray(out).tobytes())
print(digest.hexdigest())
"""
    digests = {
        printed_by(code, nproc=num_threads, openblas_num_threads=num_blas_threads)[0]
        for num_threads, num_blas_threads in (("1", "1"), ("2", "1"), ("5", "3"))
    }
    assert len(digests) == 1


def test_grouped_gemm_threads_of_blas_stay_asleep():
    """They spin while they wait for each other: on a busy machine, for ages."""
    code = """
import time

def busy_ns():
    stats = (pathlib.Path("/proc/self/task", t, "schedstat") for t in blas_threads)
    return sum(int(stat.read_text().split()[0]) for stat in stats)

call = operands([600, 0, 5], 400, 300)
gg.grouped_gemm(*call).block_until_ready()
time.sleep(0.5)  # until those that wait for their first work have given up
before = busy_ns()
for _ in range(5):
    gg.grouped_gemm(*call).block_until_ready()
print(len(blas_threads), busy_ns() - before)
"""
    num_threads, spent_ns = map(int, printed_by(code, openblas_num_threads="3"))
    if num_threads == 0:
        pytest.skip("this BLAS keeps no threads")
    assert spent_ns == 0


def test_grouped_gemm_threads_of_blas_are_its_callers_again():
    """Their number is the library's; calls that overlap leave it as they found it."""
    code = """
if num_blas_threads is None:
    print("unknown unknown")
else:
    before = num_blas_threads()
    call = operands([600, 0, 5], 100, 80)
    def work():
        for _ in range(50):
            gg.grouped_gemm(*call).block_until_ready()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(before, num_blas_threads())
"""
    before, after = printed_by(code, openblas_num_threads="3")
    if before == "unknown":
        pytest.skip("scipy has another BLAS than OpenBLAS")
    assert after == before


def test_grouped_gemm_threads_all_read_subnormals_as_zero():
    """XLA's threads do, so every thread that computes a part must."""
    code = """
lhs, rhs, sizes = operands([600, 40], 256, 1024)
lhs = np.abs(lhs) * np.float32(1e-40)
counts = {
    int(np.count_nonzero(np.asarray(gg.grouped_gemm(lhs, rhs, sizes))))
    for _ in range(10)
}
print(*counts)
"""
    assert printed_by(code, openblas_num_threads="3") == ["0"]
