# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the GPU and the driver did in a stretch of a program, from CUPTI.

tracer = Tracer()            # builds cupti_trace.cc with g++, once
with tracer.trace() as trace:
    ...                      # ends with the device synchronised
trace.kernels, trace.calls("cuGraphLaunch"), ...
"""

import contextlib
import csv
import ctypes
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile

_SOURCE = pathlib.Path(__file__).with_name("cupti_trace.cc")

# Calls after which the host has waited for the device.
WAITING_CALLS = (
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy_",
)
GRAPH_LAUNCHES = ("cuGraphLaunch", "cudaGraphLaunch")
CAPTURES = ("cuStreamBeginCapture", "cudaStreamBeginCapture")


@dataclasses.dataclass(frozen=True)
class Record:
    kind: str  # "kernel", "memcpy", "memset", "driver" or "runtime"
    name: str
    start_ns: int
    end_ns: int


@dataclasses.dataclass
class Trace:
    records: list[Record] = dataclasses.field(default_factory=list)

    @property
    def device_work(self) -> list[Record]:
        """Kernels, copies and memsets in the order in which they started."""
        kinds = ("kernel", "memcpy", "memset")
        work = [record for record in self.records if record.kind in kinds]
        return sorted(work, key=lambda record: record.start_ns)

    def num_calls(self, prefixes: tuple[str, ...]) -> int:
        """Driver calls whose name starts with one of the prefixes.

        The runtime calls the driver, so a runtime call counts only where no driver
        call of the same meaning is recorded.
        """
        driver = [r for r in self.records if r.kind == "driver"]
        runtime = [r for r in self.records if r.kind == "runtime"]
        count = sum(record.name.startswith(prefixes) for record in driver)
        return count or sum(record.name.startswith(prefixes) for record in runtime)

    def num_copies(self, direction: str) -> int:
        return sum(r.kind == "memcpy" and r.name == direction for r in self.records)

    def idle_before_us(self, is_target) -> list[float]:
        """How long the device did nothing just before each kernel that is a target."""
        idle, busy_until = [], None
        for record in self.device_work:
            if record.kind == "kernel" and is_target(record.name) and busy_until:
                idle.append(max(0, record.start_ns - busy_until) / 1e3)
            busy_until = max(busy_until or 0, record.end_ns)
        return idle


class Tracer:
    def __init__(self):
        # Into the global namespace first: the library built here leaves CUPTI open.
        ctypes.CDLL(_find_cupti(), mode=ctypes.RTLD_GLOBAL)
        self._folder = tempfile.TemporaryDirectory(prefix="gg-cupti-")
        library = pathlib.Path(self._folder.name) / "cupti_trace.so"
        command = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", str(_SOURCE)]
        command += [f"-I{path}" for path in _include_dirs()]
        subprocess.run([*command, "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    @contextlib.contextmanager
    def trace(self):
        trace = Trace()
        self._check(self._library.gg_trace_start())
        try:
            yield trace
        finally:
            path = pathlib.Path(self._folder.name) / "trace.csv"
            self._check(self._library.gg_trace_stop(str(path).encode()))
            trace.records = parse(path.read_text())

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"CUPTI failed with code {status}")


def parse(text: str) -> list[Record]:
    """Kernel names may hold commas; the last two fields are the times."""
    records = []
    for row in csv.reader(text.splitlines()):
        kind, *name, start, end = row
        records.append(Record(kind, ",".join(name), int(start), int(end)))
    return records


def _site_packages() -> list[pathlib.Path]:
    return [pathlib.Path(path) for path in sys.path if path.endswith("site-packages")]


def _find_cupti() -> str:
    for folder in (*_site_packages(), pathlib.Path("/usr/local/cuda")):
        for pattern in ("nvidia/*/lib/libcupti.so.1*", "lib64/libcupti.so.1*"):
            found = sorted(folder.glob(pattern))
            if found:
                return str(found[-1])
    return "libcupti.so"


def _include_dirs() -> list[pathlib.Path]:
    """CUPTI's headers, and a toolkit's: pip's runtime headers lack crt/."""
    roots = [
        path for site in _site_packages() for path in site.glob("nvidia/*/include")
    ]
    nvcc = shutil.which("nvcc")
    toolkits = [pathlib.Path(nvcc).resolve().parent.parent] if nvcc else []
    toolkits.append(pathlib.Path("/usr/local/cuda"))
    roots = [path / "include" for path in toolkits] + roots
    wanted = ("cupti.h", "cuda.h", "crt/host_defines.h")
    found = [next((r for r in roots if (r / name).is_file()), None) for name in wanted]
    return [path for path in dict.fromkeys(found) if path]
