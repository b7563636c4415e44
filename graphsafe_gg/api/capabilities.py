# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What runs where: the one table of platforms, GPUs, types, products and modes.

The README's table is printed from it, `explain` reads it, a test compares both.
"""

import dataclasses
import itertools
from collections.abc import Iterator

DTYPES = ("bfloat16", "float16", "float32")
PRODUCTS = ("forward", "dlhs", "drhs")
MODES = ("device", "async", "sync")

_ARCHITECTURES = {
    "cpu": ("x86-64",),
    "cuda": ("sm_90", "sm_80 to sm_89", "sm_100 and newer", "before sm_80"),
}
_STATUS = {
    "x86-64": ("stable", "tested in CI"),
    # "stable", "GPU tests on record: FILE", once they ran on these kernels.
    "sm_90": ("experimental", "newer than the GPU tests on record"),
    "sm_80 to sm_89": ("experimental", "compiled; no GPU tests on record"),
    "sm_100 and newer": ("experimental", "from PTX; no GPU tests on record"),
}
_CPU_PATH = "own kernel for few rows a group, else BLAS"
_PATHS = {
    "device": "one kernel that reads the sizes",
    "async": "cuBLASLt a group for few large groups, else that kernel",
    "sync": "cuBLASLt a group for few large groups, else that kernel",
}


@dataclasses.dataclass(frozen=True)
class Capability:
    """One row.

    Attributes:
      platform: "cpu" or "cuda".
      architecture: of the processor; a range of compute capabilities for CUDA.
      dtype: of the operands.
      product: "forward", "dlhs" or "drhs".
      mode: "device", "async" or "sync".
      path: what computes it; empty if nothing does.
      status: "stable" (tests on record for this architecture, type and product),
        "experimental" (built, none on record) or "not built".
      reason: why.
    """

    platform: str
    architecture: str
    dtype: str
    product: str
    mode: str
    path: str
    status: str
    reason: str


def capability(
    platform: str, architecture: str, dtype: str, product: str, mode: str
) -> Capability:
    key = (platform, architecture, dtype, product, mode)
    if dtype not in DTYPES:
        return Capability(*key, "", "not built", f"no kernel multiplies {dtype}")
    if platform == "cpu":
        path = "BLAS" if product == "drhs" else _CPU_PATH
        return Capability(*key, path, *_STATUS["x86-64"])
    if architecture not in _STATUS:
        reason = "the kernels need cp.async and the bfloat16 mma of sm_80"
        return Capability(*key, "", "not built", reason)
    return Capability(*key, _PATHS[mode], *_STATUS[architecture])


def architecture_of(compute_capability: int) -> str:
    """The row of a compute capability, such as 90."""
    if compute_capability < 80:
        return "before sm_80"
    if compute_capability < 90:
        return "sm_80 to sm_89"
    return "sm_90" if compute_capability < 100 else "sm_100 and newer"


def table() -> Iterator[Capability]:
    """Every combination that a call may meet."""
    for platform, architectures in _ARCHITECTURES.items():
        for row in itertools.product(architectures, DTYPES, PRODUCTS, MODES):
            yield capability(platform, *row)


def markdown() -> str:
    """The table for readers: rows that differ in nothing but a name are one."""
    lines = [
        "| platform | types | products | modes | path | status | why |",
        "|---|---|---|---|---|---|---|",
    ]
    # Types are one row only where all of its products are alike for each of them.
    products: dict[tuple, list[str]] = {}
    for row in table():
        products.setdefault((*_alike(row), row.dtype, row.mode), []).append(row.product)
    groups: dict[tuple, list[Capability]] = {}
    for row in table():
        key = (*_alike(row), *products[*_alike(row), row.dtype, row.mode])
        groups.setdefault(key, []).append(row)
    for (platform, architecture, path, status, reason, *_), rows in groups.items():
        cells = [
            f"{platform} {architecture}",
            *(_joined(rows, field) for field in ("dtype", "product", "mode")),
            path or "none",
            status,
            reason,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _alike(row: Capability) -> tuple[str, ...]:
    return row.platform, row.architecture, row.path, row.status, row.reason


def _joined(rows: list[Capability], field: str) -> str:
    return ", ".join(dict.fromkeys(getattr(row, field) for row in rows))
