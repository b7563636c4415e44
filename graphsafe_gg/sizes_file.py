# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Group sizes recorded from a model: the file and its checks.

The format is specified in design/group_sizes_file.md.
"""

import dataclasses
import os
import zipfile
import zlib
from typing import BinaryIO

import numpy as np

FORMAT = "graphsafe_gg/group_sizes/1"
_HOW_TO_WRITE = "Write it with graphsafe_gg.sizes_file.save_group_sizes."
_REQUIRED = ("format", "num_experts", "top_k", "group_sizes")


@dataclasses.dataclass(frozen=True)
class RecordedSizes:
    """Group sizes of every step and layer of a recorded model.

    Attributes:
      group_sizes: (steps, layers, num_experts) int32.
      top_k: experts per token; each sum over experts is a multiple of it.
      model: name of the model they come from, or None.
    """

    group_sizes: np.ndarray
    top_k: int
    model: str | None = None

    @property
    def num_experts(self) -> int:
        return self.group_sizes.shape[2]

    @property
    def num_tokens(self) -> int:
        """Tokens of the fullest step and layer; the others are padded to it."""
        most_rows = int(self.group_sizes.sum(axis=2, dtype=np.int64).max())
        return max(most_rows // self.top_k, 1)

    def first(self, num_steps: int, num_layers: int) -> "RecordedSizes":
        kept = self.group_sizes[:num_steps, :num_layers]
        return dataclasses.replace(self, group_sizes=kept)


def save_group_sizes(
    path: str | os.PathLike,
    group_sizes: np.ndarray,
    top_k: int,
    model: str | None = None,
) -> None:
    """Writes group sizes that `graphsafe-gg decode --sizes` replays.

    Args:
      path: file to write, usually NAME.npz.
      group_sizes: (steps, layers, num_experts) integers >= 0; each sum over experts
        is a multiple of top_k.
      top_k: experts per token.
      model: optional name, as printed by `graphsafe-gg decode --list-models`.

    Raises:
      ValueError: an argument that the format does not allow.
    """
    entries: dict = {
        "format": FORMAT,
        "num_experts": np.shape(group_sizes)[-1] if np.ndim(group_sizes) else 0,
        "top_k": top_k,
        "group_sizes": np.asarray(group_sizes),
    }
    if model is not None:
        entries["model"] = model
    _checked(str(path), {key: np.asarray(value) for key, value in entries.items()})
    with open(path, "wb") as file:
        np.savez_compressed(file, **entries)


def load_group_sizes(path: str | os.PathLike) -> RecordedSizes:
    """Reads and checks a file of group sizes; raises ValueError on anything odd."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            entries = _read_archive(file)
    except OSError as error:
        raise ValueError(f"{name}: cannot be read: {error.strerror}.") from error
    if entries is None:
        raise ValueError(f"{name}: not an npz file of plain arrays. {_HOW_TO_WRITE}")
    return _checked(name, entries)


def _read_archive(file: BinaryIO) -> dict[str, np.ndarray] | None:
    """The arrays of an npz file; None if it is not one, damaged or pickled."""
    if not zipfile.is_zipfile(file):
        return None
    file.seek(0)
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _checked(name: str, entries: dict[str, np.ndarray]) -> RecordedSizes:
    for key in _REQUIRED:
        if key not in entries:
            raise ValueError(f"{name}: has no entry '{key}'. {_HOW_TO_WRITE}")
    found = str(entries["format"])
    if found != FORMAT:
        raise ValueError(
            f"{name}: format must be '{FORMAT}'; got '{found[:60]}'. {_HOW_TO_WRITE}"
        )
    num_experts = _positive_int(name, "num_experts", entries["num_experts"])
    top_k = _positive_int(name, "top_k", entries["top_k"])
    group_sizes = _checked_sizes(name, entries["group_sizes"], num_experts, top_k)
    model = str(entries["model"]) if "model" in entries else None
    return RecordedSizes(group_sizes, top_k, model)


def _positive_int(name: str, key: str, value: np.ndarray) -> int:
    if value.shape != () or not np.issubdtype(value.dtype, np.integer) or value < 1:
        raise ValueError(
            f"{name}: {key} must be one positive integer; got {_describe(value)}."
        )
    return int(value)


def _describe(value: np.ndarray) -> str:
    if value.shape == ():
        return repr(value.item())
    return f"an array of shape {value.shape} and dtype {value.dtype}"


def _checked_sizes(
    name: str, group_sizes: np.ndarray, num_experts: int, top_k: int
) -> np.ndarray:
    if group_sizes.ndim != 3 or 0 in group_sizes.shape:
        raise ValueError(
            f"{name}: group_sizes must have shape (steps, layers, experts), none of "
            f"them 0; got {group_sizes.shape}."
        )
    if not np.issubdtype(group_sizes.dtype, np.integer):
        raise ValueError(
            f"{name}: group_sizes must have an integer dtype; got {group_sizes.dtype}."
        )
    if group_sizes.shape[2] != num_experts:
        raise ValueError(
            f"{name}: group_sizes must have {num_experts} experts, as num_experts "
            f"says; got {group_sizes.shape[2]}."
        )
    _check_values(name, group_sizes, top_k)
    return group_sizes.astype(np.int32)


def _check_values(name: str, group_sizes: np.ndarray, top_k: int) -> None:
    is_bad = (group_sizes < 0) | (group_sizes > np.iinfo(np.int32).max)
    if is_bad.any():
        step, layer, expert = (int(i) for i in np.argwhere(is_bad)[0])
        raise ValueError(
            f"{name}: group_sizes must be from 0 to 2**31 - 1; got "
            f"{group_sizes[step, layer, expert]} at step {step}, layer {layer}, "
            f"expert {expert}."
        )
    sums = group_sizes.sum(axis=2, dtype=np.int64)
    is_bad = sums % top_k != 0
    if is_bad.any():
        step, layer = (int(i) for i in np.argwhere(is_bad)[0])
        raise ValueError(
            f"{name}: the group sizes of a layer must add up to a multiple of top_k = "
            f"{top_k}; got {sums[step, layer]} at step {step}, layer {layer}. Record "
            "all experts of the layer, or write top_k = 1 for a part of them."
        )
    if not 0 < sums.max() <= np.iinfo(np.int32).max:
        raise ValueError(
            f"{name}: the group sizes of a layer must add up to less than 2**31, and "
            f"to more than 0 in some layer; got {sums.max()} at most."
        )
