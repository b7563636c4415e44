# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What others do on the same operands, in CUDA graphs: PyTorch's grouped GEMM, a cuBLAS
loop that knows the sizes, and one dense GEMM of the same FLOPs. jit_step.py has those
that run inside a jitted JAX step. What cannot run is named, with the reason."""

import contextlib
import functools
from collections.abc import Callable

from dlpack import Exported
from timing import NUM_CALLS
from workload import Workload

GRAPH_BASELINES = ("torch grouped_mm", "cublas loop", "dense")
JIT_BASELINES = (
    "lax.ragged_dot",
    "lax.ragged_dot fusion",
    "pallas ragged_dot_mgpu",
    "tokamax",
)
# Timed by the peers on another day, or not to be had as a package: see peer_rows.json.
NOT_RUN = {
    "TransformerEngine": "graphsafe_gg does not call it yet",
    "pull request 2213": "timed in a whole step: suite step",
}


def first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]


class TorchContestant:
    """PyTorch calls, captured by PyTorch and replayed on the benchmark's stream."""

    def __init__(self, device, name: str, call: Callable, num_calls: int = NUM_CALLS):
        import torch

        self.name = name
        self.num_calls = num_calls
        self._device = device
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(2):
                call(0)
        torch.cuda.synchronize()
        # What the graph uses: what the call holds, and memory of the graph's own.
        self._call = call
        self._owner = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(
            self._owner, stream=side, capture_error_mode="thread_local"
        ):
            for i in range(num_calls):
                self.result = call(i)
        self._graph = device.instantiate(self._owner.raw_cuda_graph())

    def run(self) -> None:
        self._device.replay(self._graph)

    def release(self) -> None:
        self._device.release(self._graph)
        self._owner.reset()


def torch_operands(device, workload: Workload):
    """(a, [b of each copy]) as tensors on the workload's own memory."""
    import torch

    def tensor(address: int, shape: tuple[int, ...]):
        return torch.from_dlpack(Exported(device, address, shape, workload.dtype))

    dims = workload.dims
    a = tensor(workload.a, dims.a_shape)
    return a, [tensor(address, dims.b_shape) for address in workload.copies]


def _grouped_mm(torch, workload: Workload, a, copies) -> Callable:
    function = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    offsets = torch.tensor(workload.sizes, device=a.device).cumsum(0).to(torch.int32)
    dims = workload.dims
    if dims.is_drhs:
        return lambda i: function(a.t(), copies[0], offs=offsets)
    if dims.transpose_rhs:
        copies = [b.transpose(1, 2) for b in copies]
    return lambda i: function(a, copies[i % len(copies)], offs=offsets)


def _cublas_loop(torch, workload: Workload, a, copies) -> Callable:
    dims = workload.dims
    out = torch.empty(dims.out_shape, dtype=a.dtype, device=a.device)
    ends = workload.sizes.cumsum().tolist()
    groups = [
        (group, slice(start, end))
        for group, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
        if end > start
    ]

    def call(i: int):
        b = copies[i % len(copies)]
        for group, rows in groups:
            if dims.is_drhs:
                torch.mm(a[rows].t(), b[rows], out=out[group])
            else:
                weights = b[group].t() if dims.transpose_rhs else b[group]
                torch.mm(a[rows], weights, out=out[rows])
        return out

    return call


def _dense(torch, workload: Workload, a, copies, *, is_transposed: bool) -> Callable:
    """All rows times one matrix, stored either way round."""
    dims = workload.dims
    if dims.is_drhs:
        left = a.t().contiguous() if is_transposed else a.t()
        out = torch.empty((dims.k, dims.n), dtype=a.dtype, device=a.device)
        return lambda i: torch.mm(left, copies[0], out=out)
    shape = (dims.n, dims.k) if is_transposed else (dims.k, dims.n)
    matrices = [b[0].reshape(shape) for b in copies]
    if is_transposed:
        matrices = [matrix.t() for matrix in matrices]
    out = torch.empty((dims.m, dims.n), dtype=a.dtype, device=a.device)
    return lambda i: torch.mm(a, matrices[i % len(matrices)], out=out)


def _builders() -> dict[str, Callable]:
    return {
        "torch grouped_mm": _grouped_mm,
        "cublas loop": _cublas_loop,
        "dense kn": functools.partial(_dense, is_transposed=False),
        "dense nk": functools.partial(_dense, is_transposed=True),
    }


def graph_baselines(
    device, workload: Workload, num_calls: int, names: tuple[str, ...]
) -> tuple[list[TorchContestant], dict[str, str]]:
    """The baselines of these names that run here, and why the others do not."""
    wanted = [n for n in _builders() if n in names or n.split()[0] in names]
    if not wanted:
        return [], {}
    try:
        import torch

        a, copies = torch_operands(device, workload)
    except Exception as error:
        return [], dict.fromkeys(wanted, first_line(error))
    found, missing = [], {}
    for name in wanted:
        try:
            call = _builders()[name](torch, workload, a, copies)
            found.append(TorchContestant(device, name, call, num_calls))
        except Exception as error:
            missing[name] = first_line(error)
            with contextlib.suppress(Exception):
                torch.cuda.synchronize()
    return found, missing


def result_address(contestant) -> int:
    """Where a contestant's last result lies: a torch tensor, or an address already."""
    result = contestant.result
    return result if isinstance(result, int) else result.data_ptr()


def name_dense(missing: dict[str, str]) -> dict[str, str]:
    """The dense GEMM is missing only where neither layout ran."""
    kept = {n: text for n, text in missing.items() if not n.startswith("dense ")}
    if len(missing) - len(kept) == 2:
        kept["dense"] = missing["dense kn"]
    return kept


def merge_dense(baselines_ms: dict[str, float]) -> dict[str, float]:
    """One figure for the dense GEMM: the better of both layouts."""
    merged = {n: ms for n, ms in baselines_ms.items() if not n.startswith("dense ")}
    if dense := [ms for n, ms in baselines_ms.items() if n.startswith("dense ")]:
        merged["dense"] = min(dense)
    return merged


def versions() -> dict[str, str]:
    """Of the packages that baselines come from, where installed."""
    import importlib.metadata

    found = {}
    for package in (
        "torch",
        "triton",
        "tokamax",
        "transformer_engine",
        "cuda-bindings",
    ):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
