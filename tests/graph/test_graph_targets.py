# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The GPUs that a step can be compiled for."""

import dataclasses

import graph_steps as steps
import jax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from graphsafe_gg.testing import assert_graph_safe, inspect_graph
from graphsafe_gg.testing.targets import TARGETS, cuda_version, describe, find_target


def normalised_pairs(x, w, sizes):
    return steps.pair(steps.pair(steps.normalise(x), w, sizes), w, sizes)


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_targets_compile(name):
    report = assert_graph_safe(
        normalised_pairs, *steps.PAIR_ARGS, target=name, one_graph=True
    )
    assert report.target == f"{name} (CUDA 13.0)"


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_targets_compile_from_a_file(tmp_path):
    file = tmp_path / "gpu.txtpb"
    file.write_text(TARGETS["h100"].text())
    report = inspect_graph(normalised_pairs, *steps.PAIR_ARGS, target=file)
    assert report.target == "NVIDIA H100 80GB HBM3 (CUDA 13.0)"
    assert report.is_one_graph


def test_targets_cuda_version_is_the_oldest_of_three():
    text = dataclasses.replace(TARGETS["h200"], cuda_version=(13, 1)).text()
    assert cuda_version(text) == (13, 1)
    old_driver = text.replace('driver_version: "13.1.0"', 'driver_version: "12.8.0"')
    assert cuda_version(old_driver) == (12, 8)
    assert describe(old_driver) == "NVIDIA H200 (CUDA 12.8)"


def test_targets_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"must be one of a100, b200, h100, h200"):
        find_target("v100")


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_targets_several_devices_follow_from_the_shardings():
    """Rows over two devices: each compiles its half, and no collective is needed."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    split, whole = PartitionSpec("x"), PartitionSpec()
    step = jax.shard_map(
        normalised_pairs, mesh=mesh, in_specs=(split, whole, whole), out_specs=split
    )
    x, w, sizes = steps.PAIR_ARGS
    x = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, split))
    report = assert_graph_safe(step, x, w, sizes, one_graph=True)
    assert [call.call.name for call in report.calls] == ["pair.up", "pair.down"] * 2
