# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the package uses of JAX that JAX does not publish, and a jax without it."""

import functools
import importlib

import pytest
from support.child_process import output_of

from graphsafe_gg import _xla_partitioner

WITHOUT = """
from jax._src import xla_bridge
del xla_bridge.register_plugin_callbacks
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import graphsafe_gg as gg

lhs, rhs = np.ones((4, 3), np.float32), np.ones((2, 3, 6), np.float32)
sizes = np.array([1, 2])
print(gg.grouped_gemm(lhs, rhs, sizes)[:, 0].tolist())
mesh = Mesh(np.array(jax.devices()), ("x",))
specs = {"in_specs": (P(), P(None, None, "x"), P()), "out_specs": P(None, "x")}
mapped = jax.jit(jax.shard_map(gg.grouped_gemm, mesh=mesh, **specs))
print(mapped(lhs, rhs, sizes)[:, 0].tolist())
put = jax.device_put(rhs, NamedSharding(mesh, specs["in_specs"][1]))
try:
    jax.jit(gg.grouped_gemm)(lhs, put, sizes)
except NotImplementedError as error:
    print(error)
"""


@pytest.mark.parametrize("name", _xla_partitioner.USED)
def test_xla_partitioner_has_each_name_it_uses(name):
    folder, module, *attributes = name.split(".")
    if module == "_src":
        module = f"_src.{attributes.pop(0)}"
    found = importlib.import_module(f"{folder}.{module}")
    assert functools.reduce(getattr, attributes, found) is not None
    assert _xla_partitioner.missing is None


def test_xla_partitioner_missing_refuses_a_plain_sharded_jit_alone():
    flags = "--xla_force_host_platform_device_count=2"
    text = output_of(WITHOUT, env={"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags})
    one, mapped, error = text.splitlines()
    assert one == mapped == "[3.0, 3.0, 3.0, 0.0]"
    assert error.startswith(
        "grouped_gemm: a program of several devices must be partitioned by XLA as in "
        "jax 0.10 to 0.12; got jax "
    )
    assert error.endswith(
        "has no attribute 'register_plugin_callbacks'). Use jax.shard_map over all "
        "mesh axes."
    )
