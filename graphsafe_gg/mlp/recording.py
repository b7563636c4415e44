# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Records the group sizes of a running model, for `graphsafe-gg decode --sizes`."""

import contextlib
import os
from collections.abc import Iterator

import jax
import numpy as np

from graphsafe_gg._errors import message
from graphsafe_gg.mlp.checks import check_count
from graphsafe_gg.sizes_file import save_group_sizes


class _Recording:
    """The sizes of every call in order; compared by identity, for jit's cache."""

    def __init__(self):
        self.calls: list[np.ndarray] | None = []

    def add(self, group_sizes) -> None:
        if self.calls is not None:  # a program compiled inside may run after the end
            self.calls.append(np.array(group_sizes))


# In the key of jit's cache: a model is traced anew for a recording, and the program
# that it has without one holds no trace of it.
_recording = jax.make_user_context(default_value=None)


@contextlib.contextmanager
def record_sizes(
    path: str | os.PathLike, *, top_k: int, num_layers: int, model: str | None = None
) -> Iterator[None]:
    """Writes the group sizes of each MoE layer that runs inside the `with` block.

    Every call of `moe_mlp`, `routed_mlp`, `grouped_mlp` and `grouped_layernorm_mlp`,
    under jit, scan, grad or none, adds its group sizes; `num_layers` calls after each
    other are one step. `graphsafe-gg decode --sizes` replays the file.

    Args:
      path: the file to write at the end, usually NAME.npz.
      top_k: experts per token. With dropped choices (-1) the rows of a layer are no
        multiple of it; then pass 1: the file has one row per token.
      num_layers: MoE layers of a step.
      model: optional, a name of `graphsafe-gg decode --list-models`.

    Raises:
      ValueError: in a program of several devices; at the end, if no layer ran, if the
        calls are no multiple of num_layers, if the layers differ in their number of
        experts, or if the rows of a layer are no multiple of top_k. Nothing is written
        then, nor if the block itself raises.

    Under jit: functions are traced and compiled anew inside the block, and the
    programs from before serve again after it. A program that was compiled ahead of
    time before the block is not recorded. Under grad of a layer inside
    `jax.checkpoint`, the layer runs twice and is recorded twice. Under vmap each
    element of the batch is a call. On one device only: JAX has no ordered callbacks in
    a program of several.
    Graph safety: a host callback in each layer keeps it out of the graph.
    Cost: inside, one copy of the sizes to the host and one wait a layer. Outside,
    none: the programs are the same.

    Source: design/group_sizes_file.md.
    """
    op = "record_sizes"
    largest = 2**31 - 1
    top_k = check_count(op, "top_k", top_k, largest, "the range of int32")
    num_layers = check_count(
        op, "num_layers", num_layers, largest, "the range of int32"
    )
    recording = _Recording()
    try:
        with _recording(recording):
            yield
            jax.effects_barrier()
    except ValueError as error:
        if "not supported for more than 1 device" not in str(error):
            raise
        rule, got = "run on one device", "a program of several"
        advice = "There, return the sizes from the step and write them with "
        advice += "graphsafe_gg.sizes_file.save_group_sizes."
        raise ValueError(message(op, "the model", rule, got, advice)) from error
    calls, recording.calls = recording.calls or [], None
    if not calls or len(calls) % num_layers:
        rule = f"be a multiple of num_layers = {num_layers}, and not 0"
        advice = "Count the MoE layers of one step, and run whole steps."
        text = message(op, "the number of recorded layers", rule, len(calls), advice)
        raise ValueError(text)
    widths = sorted({sizes.shape for sizes in calls})
    if len(widths) > 1:
        rule = "have one number of experts"
        got = " and ".join(str(width) for (width,) in widths)
        advice = "Record layers of one kind."
        raise ValueError(message(op, "the recorded layers", rule, got, advice))
    steps = np.stack(calls).reshape(-1, num_layers, *widths[0])
    save_group_sizes(path, steps, top_k, model)


def record(group_sizes: jax.Array) -> None:
    """Adds the sizes of a layer that runs to the recording, if there is one."""
    if _recording.value is not None:
        jax.debug.callback(_recording.value.add, group_sizes, ordered=True)
