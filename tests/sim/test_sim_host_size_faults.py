# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Failures of the driver and of cuBLASLt in launches from known sizes: a clear error or
the project's own kernels, nothing left unjoined, and the next call runs."""

import pytest
from host_size_call import PRODUCTS, SIX_GROUPS, Call
from simulated import OUT_OF_MEMORY

from graphsafe_gg import _testing

LAUNCH_FAILED = 719
# Of cuBLASLt.
ALLOC_FAILED, INTERNAL_ERROR, NOT_SUPPORTED = 3, 14, 15


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("product", PRODUCTS)
def test_sim_host_launch_refused_group(machine, product, nth):
    """The own kernels compute all of the product, the groups that ran included."""
    call = Call(machine(jitter=4), product, "async", g=4)
    _testing.fail_cublaslt("Matmul", NOT_SUPPORTED, nth)
    call.check([5, 0, 9, 3])
    assert call.launches == {"kernels: cublaslt refused": 1}
    gemms = [function for function, _ in _testing.cublaslt_calls()].count("Matmul")
    assert gemms == nth
    call.check([5, 0, 9, 3])
    assert call.launches == {"kernels: cublaslt refused": 1, "cublaslt": 1}


def error_of(run):
    try:
        run()
    except RuntimeError as error:
        return str(error)
    return None


def assert_nothing_is_unjoined(sim):
    """XLA's stream alone is waited for; then no other stream holds any work."""
    sim.synchronize()
    assert sim.advance(1) == 0


@pytest.mark.parametrize("count", [1, -1])
@pytest.mark.parametrize(
    "function", ["cuEventRecord", "cuStreamWaitEvent", "cuMemsetD8Async"]
)
def test_sim_host_launch_driver_failures_leave_nothing_unjoined(
    cublaslt, machine, function, count
):
    cublaslt(num_steps=20)
    sim = machine(jitter=4)
    call = Call(sim, "drhs", "async", g=9)
    sizes = SIX_GROUPS
    call.check(sizes)
    num_failed = 0
    while True:
        options = {"nth": num_failed + 1, "count": count, "stage": "execute-eager"}
        sim.inject(function, LAUNCH_FAILED, **options)
        message = error_of(lambda: call.run(sizes))
        if message is None:
            break
        assert f"{function} failed on device 0: " in message
        num_failed += 1
        assert_nothing_is_unjoined(sim)
        sim.clear_faults()
    assert sim.num_faults() == 0
    assert num_failed >= 2
    sim.clear_faults()
    call.check(sizes)


@pytest.mark.parametrize("nth", [1, 2, 6])
def test_sim_host_launch_library_failure(cublaslt, machine, nth):
    cublaslt(num_steps=20)
    sim = machine(jitter=4)
    call = Call(sim, "gkn", "async", g=9)
    sizes = SIX_GROUPS
    _testing.fail_cublaslt("Matmul", INTERNAL_ERROR, nth)
    text = r"cublasLtMatmul failed on device 0: CUBLAS_STATUS_INTERNAL_ERROR \(14\)"
    with pytest.raises(RuntimeError, match=text):
        call.run(sizes)
    assert_nothing_is_unjoined(sim)
    call.check(sizes)


@pytest.mark.parametrize("function", ["cuStreamCreate", "cuEventCreate"])
def test_sim_host_launch_initialize_fails_and_is_tried_again(machine, function):
    sim = machine()
    Call(sim, "gkn", "device", g=4).check([5, 0, 9, 3])
    call = Call(sim, "gkn", "sync", g=4)
    sim.inject(function, OUT_OF_MEMORY, stage="initialize", nth=2)
    with pytest.raises(RuntimeError, match=f"{function} failed on device 0"):
        call.run([5, 0, 9, 3])
    call.check([5, 0, 9, 3])
    assert call.launches == {"cublaslt": 1}


def test_sim_host_launch_library_out_of_memory(machine):
    call = Call(machine(), "gkn", "sync", g=4)
    _testing.fail_cublaslt("Create", ALLOC_FAILED)
    text = r"cublasLtCreate failed on device 0: CUBLAS_STATUS_ALLOC_FAILED \(3\)"
    with pytest.raises(RuntimeError, match=text):
        call.run([5, 0, 9, 3])
    call.check([5, 0, 9, 3])
    assert call.launches == {"cublaslt": 1}


@pytest.mark.parametrize(
    "function", ["Create", "MatmulDescCreate", "MatrixLayoutCreate"]
)
def test_sim_host_launch_unusable_library(machine, function, capfd):
    """Such as one that is older than the GPU: own kernels, and the reason in stats."""
    call = Call(machine(), "gkn", "sync", g=4)
    _testing.fail_cublaslt(function, INTERNAL_ERROR)
    call.check([5, 0, 9, 3])
    _testing.clear_cublaslt_calls()
    call.check([5, 0, 9, 3])
    assert _testing.cublaslt_calls() == []
    assert call.launches == {"kernels: no usable cublaslt": 2}
    state = _testing.cublaslt_state()
    assert state.startswith("not usable: cublasLt")
    assert state.endswith("failed on device 0: CUBLAS_STATUS_INTERNAL_ERROR (14)")
