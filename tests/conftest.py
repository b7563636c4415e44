# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""One configuration for every test: strict promotion, two CPU devices, dirty memory."""

# ruff: noqa: E402
import os

# Before NumPy loads its BLAS: on a busy machine its threads cost more than they bring.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Before a backend starts. Graphs of one node make each call on a GPU a captured one.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
_FLAGS = os.environ.get("XLA_FLAGS", "")
if "xla_gpu_graph_min_graph_size" not in _FLAGS:
    os.environ["XLA_FLAGS"] = f"{_FLAGS} --xla_gpu_graph_min_graph_size=1".strip()

import jax
import pytest
from hypothesis import HealthCheck, settings
from support import gpu_results, platforms

import graphsafe_gg as gg
from graphsafe_gg.testing import dirty_memory

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The same examples at every run. GG_TEST_EXPLORE=1 draws new ones.
settings.register_profile(
    "repeatable",
    derandomize=os.environ.get("GG_TEST_EXPLORE") != "1",
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption(
        "--results",
        metavar="FILE",
        help="write outcome and seconds of the tests that ran on a GPU as JSON",
    )


def pytest_configure(config):
    is_worker = hasattr(config, "workerinput")
    if (file := config.getoption("--results")) and not is_worker:
        config.pluginmanager.register(gpu_results.ResultFile(file), "gpu-results")


def pytest_report_header():
    return (
        f"graphsafe_gg {gg.__file__}, jax {jax.__version__}, "
        f"platforms {', '.join(platforms.platforms())}"
    )


def pytest_generate_tests(metafunc):
    """`device` stands for each platform in turn; in a test marked gpu, for the GPU."""
    if "device" not in metafunc.fixturenames:
        return
    if metafunc.definition.get_closest_marker("gpu"):
        names = [platforms.gpu_platform() or "cuda"]
    else:
        names = platforms.platforms()
    params = [
        pytest.param(name, marks=[pytest.mark.gpu] if name == "cuda" else [])
        for name in names
    ]
    metafunc.parametrize("device", params, indirect=True)


def pytest_collection_modifyitems(config, items):
    if platforms.gpu_platform() is not None:
        return
    needs_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if needs_gpu:
        config.hook.pytest_deselected(items=needs_gpu)
        items[:] = [item for item in items if item not in needs_gpu]


@pytest.fixture
def device(request):
    """The default device of the test, with NaN in its free memory.

    A size error that the test leaves on record fails it.
    """
    chosen = jax.devices(request.param)[0]
    with jax.default_device(chosen):
        dirty_memory(chosen)
        yield chosen
        gg.check()
