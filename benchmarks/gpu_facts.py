# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the driver says about GPU 0: its name, and its clock and power while a benchmark
runs. Reads only. Through NVML where its Python package is there, else nvidia-smi."""

import re
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable

_INTERVAL_S = 0.05


def query() -> dict[str, str | None]:
    """Name, driver and CUDA version of GPU 0; Nones where nvidia-smi says nothing."""
    name, _, driver = _query("name,driver_version").partition(", ")
    cuda = re.search(r"CUDA(?: UMD)? Version\s*:\s*([\d.]+)", _nvidia_smi())
    return {
        "gpu": name or None,
        "driver": driver or None,
        "cuda": cuda.group(1) if cuda else None,
    }


def _query(fields: str) -> str:
    return _nvidia_smi(
        "--id=0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"
    )


def _nvidia_smi(*options: str) -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    done = subprocess.run(
        ["nvidia-smi", *options], capture_output=True, text=True, timeout=30
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def parse_sample(line: str) -> tuple[float, float] | None:
    """(SM clock in MHz, power in W) of a line "1980, 512.33", or None."""
    try:
        clock, power = (float(part) for part in line.split(","))
    except ValueError:
        return None
    return clock, power


def _reader() -> Callable[[], tuple[float, float] | None]:
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:
        return lambda: parse_sample(_query("clocks.sm,power.draw"))

    def read() -> tuple[float, float]:
        clock = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        return float(clock), pynvml.nvmlDeviceGetPowerUsage(handle) / 1000

    return read


class Sampler:
    """Samples SM clock and power in the background until it is stopped."""

    def __init__(self, read: Callable[[], tuple[float, float] | None] | None = None):
        self._read = read or _reader()
        self._samples: list[tuple[float, float, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            try:
                sample = self._read()
            except Exception:
                return
            if sample is None:
                return
            self._samples.append((time.perf_counter(), *sample))

    def median_since(self, start: float) -> dict[str, float]:
        """sm_clock_mhz and power_w since a time of perf_counter; {} without samples."""
        recent = [sample for sample in list(self._samples) if sample[0] >= start]
        if not recent:
            return {}
        return {
            "sm_clock_mhz": round(statistics.median(s[1] for s in recent)),
            "power_w": round(statistics.median(s[2] for s in recent), 1),
        }

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=30)
