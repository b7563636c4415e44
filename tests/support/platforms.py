# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Where tests run: on the CPU always, on CUDA where there is a GPU.

GG_TEST_PLATFORMS (a comma list of cpu and cuda) chooses; asking for cuda without a GPU
is an error. GG_TEST_GPU_ON_CPU=1 runs the tests that need a GPU on the CPU, with what
only a GPU can show left out: a check that the tests themselves run.
"""

import functools
import os

import jax


@functools.cache
def has_cuda() -> bool:
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


@functools.cache
def platforms() -> tuple[str, ...]:
    """The platforms of tests that run on each."""
    chosen = os.environ.get("GG_TEST_PLATFORMS")
    if chosen is None:
        return ("cpu", "cuda") if has_cuda() else ("cpu",)
    names = tuple(name.strip() for name in chosen.split(","))
    if not set(names) <= {"cpu", "cuda"}:
        raise ValueError(
            f"GG_TEST_PLATFORMS must list cpu and cuda only; got {chosen!r}."
        )
    if "cuda" in names and not has_cuda():
        raise ValueError(
            "GG_TEST_PLATFORMS must not ask for cuda where JAX finds no GPU; "
            f"got {chosen!r}. Install jax with CUDA, or leave cuda out."
        )
    return names


def gpu_platform() -> str | None:
    """Where tests that need a GPU run: "cuda", "cpu" for a rehearsal, or nowhere."""
    if "cuda" in platforms():
        return "cuda"
    return "cpu" if os.environ.get("GG_TEST_GPU_ON_CPU") == "1" else None


def is_cuda(device: jax.Device) -> bool:
    return device.platform == "gpu"
