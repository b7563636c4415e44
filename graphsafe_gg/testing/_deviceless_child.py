# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Runs as a process of its own: compiles one StableHLO module for a GPU that need not
be there, and lets XLA dump its thunks. `_deviceless` writes the request and reads the
answer; a crash of the compiler ends this process alone."""

import importlib
import importlib.util
import json
import pathlib
import shutil
import sys

_SYSTEM_CUDA = "/usr/local/cuda/bin"


def find_ptxas() -> tuple[str, str]:
    """(ptxas, its CUDA folder), of the wheels first; no folder for one on PATH."""
    for package in ("nvidia.cu13", "nvidia.cuda_nvcc"):
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for root in (spec and spec.submodule_search_locations) or ():
            ptxas = pathlib.Path(root) / "bin" / "ptxas"
            if ptxas.exists():
                return str(ptxas), str(root)
    found = shutil.which("ptxas") or shutil.which("ptxas", path=_SYSTEM_CUDA)
    return (found or "", "")


def has_plugin() -> bool:
    for package in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
        try:
            if importlib.util.find_spec(package):
                return True
        except ModuleNotFoundError:
            continue
    return False


def compile_module(request: dict, folder: pathlib.Path) -> None:
    import numpy as np
    from jax.experimental import topologies
    from jax.interpreters import mlir
    from jax.interpreters.mlir import ir
    from jaxlib import xla_client

    num_devices = request["num_replicas"] * request["num_partitions"]
    devices = topologies.get_topology_desc(
        platform="cuda",
        target_config=request["target_config"],
        topology=f"1x1x{num_devices}",
    ).devices
    options = xla_client.CompileOptions()
    options.num_replicas = request["num_replicas"]
    options.num_partitions = request["num_partitions"]
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.arange(num_devices).reshape(request["num_replicas"], -1)
    )
    build = options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = request["use_shardy"]
    overrides = {**request["compiler_options"], "xla_dump_to": str(folder / "dump")}
    _, cuda_folder = find_ptxas()
    if cuda_folder:
        overrides["xla_gpu_cuda_data_dir"] = cuda_folder
    options.env_option_overrides = list(overrides.items())
    with mlir.make_ir_context():
        module = ir.Module.parse((folder / "module.mlirbc").read_bytes())
        devices[0].client.compile(
            module,
            executable_devices=xla_client.DeviceList(tuple(devices)),
            compile_options=options,
        )


def answer(request: dict, folder: pathlib.Path) -> dict:
    missing = [
        name
        for name, found in (("plugin", has_plugin()), ("ptxas", find_ptxas()[0]))
        if not found
    ]
    if missing:
        return {"missing": missing}
    for module in request["imports"]:
        importlib.import_module(module)
    compile_module(request, folder)
    return {}


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    sys.path[:] = request["sys_path"]
    try:
        result = answer(request, folder)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    (folder / "answer.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
