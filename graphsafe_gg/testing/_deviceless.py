# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""From a user's function to XLA's dump of its GPU program, without a GPU.

The function is traced and lowered here, since it may be a closure; the StableHLO module
goes to a child process, since dumping, XLA's flags and the choice of platforms are
settled once a process, and since a failed check of the compiler ends its process.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from graphsafe_gg import _config
from graphsafe_gg.testing._thunks import Dump, read_dump
from graphsafe_gg.testing.targets import Target

CALLBACKS = ("pure_callback", "io_callback", "debug_callback", "debug_print")
CALLBACK_TARGET = "xla_ffi_python_gpu_callback"
_CHILD = pathlib.Path(__file__).with_name("_deviceless_child.py")
_TAIL_CHARS = 2000


class CompilerMissingError(RuntimeError):
    """The packages that compile for a CUDA target are not installed."""


class CompileError(RuntimeError):
    """The step does not compile for the target."""


def lower(fn: Callable, args: Sequence[Any]) -> Any:
    """The StableHLO module of fn for CUDA, with the MLIR context that owns it."""
    jitted: Any = fn if hasattr(fn, "trace") else jax.jit(fn)
    traced = jitted.trace(*args)
    callbacks = {
        equation.primitive
        for equation in _equations(traced.jaxpr.jaxpr)
        if equation.primitive.name in CALLBACKS
    }
    # JAX lowers a callback for the platform it runs on alone.
    rules: Any = tuple((primitive, _lower_callback) for primitive in callbacks)
    parameters = mlir.LoweringParameters(override_lowering_rules=rules)
    lowered = traced.lower(lowering_platforms=("cuda",), _private_parameters=parameters)
    return lowered.compiler_ir("stablehlo")


def _equations(jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for parameter in equation.params.values():
            several = isinstance(parameter, tuple | list)
            for one in parameter if several else (parameter,):
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)


def _lower_callback(ctx, *operands, **_):
    """The call that JAX makes for a callback on CUDA, without the Python function."""
    rule = jax.ffi.ffi_lowering(CALLBACK_TARGET, has_side_effect=True)
    results = rule(ctx, *operands, index=np.uint64(0))
    if ctx.tokens_in is not None:
        ctx.set_tokens_out(ctx.tokens_in)
    return results


class Compiler:
    """Compiles one lowered module, any number of times, each time in a new process."""

    def __init__(
        self,
        module: Any,
        target: Target | str,
        xla_flags: str,
        compiler_options: dict[str, str],
        imports: Sequence[str],
    ):
        self._module = module
        self._xla_flags = xla_flags
        self._compiler_options = compiler_options
        attributes = module.operation.attributes
        self._request = {
            "target_config": target.text() if isinstance(target, Target) else target,
            "num_replicas": _count(attributes, "mhlo.num_replicas"),
            "num_partitions": max(
                _count(attributes, "mhlo.num_partitions"), _mesh_size(module)
            ),
            "use_shardy": bool(getattr(jax.config, "jax_use_shardy_partitioner", True)),
            "imports": ["graphsafe_gg", *imports],
            "sys_path": [path or os.getcwd() for path in sys.path],
        }

    def dump(self, **more_options: str) -> tuple[Dump, str]:
        """XLA's dump and its log."""
        with tempfile.TemporaryDirectory(prefix="graphsafe-gg-") as name:
            folder = pathlib.Path(name)
            with (folder / "module.mlirbc").open("wb") as file:
                self._module.operation.write_bytecode(file)
            options = {**self._compiler_options, **more_options}
            request = {**self._request, "compiler_options": options}
            (folder / "request.json").write_text(json.dumps(request))
            log = self._run(folder)
            return read_dump(folder / "dump"), log

    def _run(self, folder: pathlib.Path) -> str:
        child = subprocess.run(
            [sys.executable, "-P", str(_CHILD), str(folder)],
            # No backend starts: a GPU that is here stays free for others.
            env=_config.child_environment(
                self._xla_flags,
                JAX_PLATFORMS="cpu",
                CUDA_VISIBLE_DEVICES="",
                TF_CPP_MIN_LOG_LEVEL="1",
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        log = child.stdout + child.stderr
        answer_file = folder / "answer.json"
        if not answer_file.exists():
            raise CompileError(
                "graph safety: the step must compile for the target; got exit status "
                f"{child.returncode} of the compiler's process. "
                f"Its last words: {log[-_TAIL_CHARS:].strip()}"
            )
        _raise_for(json.loads(answer_file.read_text()))
        return log


def _count(attributes, name: str) -> int:
    return int(attributes[name].value) if name in attributes else 1


def _mesh_size(module: Any) -> int:
    """Devices of the largest mesh; the module itself counts those of real ones only."""
    sizes = [1]
    for operation in module.body.operations:
        if operation.operation.name == "sdy.mesh":
            axes = re.findall(r'"=(\d+)', str(operation).partition("{")[0])
            sizes.append(math.prod(map(int, axes)))
    return max(sizes)


def _raise_for(answer: dict) -> None:
    if answer.get("missing"):
        raise CompilerMissingError(missing_text(answer["missing"]))
    error = answer.get("error", "")
    if "No PTX compilation provider" in error or "ptxas" in error:
        raise CompilerMissingError(f"{missing_text(['ptxas'])} XLA said: {error}")
    if "No FFI handler registered" in error:
        raise CompileError(
            "graph safety: every custom call of the step must be registered for CUDA; "
            f"got {error} Pass imports=('module.that.registers.it',)."
        )
    if error:
        raise CompileError(
            f"graph safety: the step must compile for the target; got {error}"
        )


def missing_text(missing: Sequence[str]) -> str:
    names = {"plugin": "JAX's CUDA plugin", "ptxas": "ptxas"}
    version = jax.__version__
    return (
        "graph safety: the compiler of the target must be installed; got no "
        f"{' and no '.join(names[name] for name in missing)}. "
        "No GPU, driver, cuDNN or cuBLAS is needed, and about 1 GB of disk: "
        "pip install 'graphsafe_gg[graph]' "
        f"'jax-cuda13-plugin=={version}', or by hand: pip install "
        f"jax-cuda13-plugin=={version} jax-cuda13-pjrt=={version} nvidia-cuda-nvcc "
        "nvidia-cuda-crt nvidia-cuda-runtime nvidia-nvvm"
    )
