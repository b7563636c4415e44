# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The early copy of group sizes on a raw stream, into a slot that the caller holds."""

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message
from graphsafe_gg.api import validation
from graphsafe_gg.api.call_site import call_site
from graphsafe_gg.raw.device_array import DeviceArray, as_device_array
from graphsafe_gg.raw.stream import stream_address


class Slot:
    """Pinned host memory and an event: where copies of group sizes arrive.

    Make it once, outside any capture: it allocates. It serves one copy at a time, again
    and again: read it with `wait` before the next copy, or the next launch of a graph
    that holds one, is enqueued.

    Lifetime: a graph that captured a copy into the slot, its clones and its executable
    graphs keep the slot's memory and event, so the Slot may go before them. A slot
    without owner and graph is used again for a later Slot of its size on this device;
    its memory, some hundred bytes, is never freed.

    Args:
      num_groups: how many sizes.
      dtype: of the sizes, any integer dtype.
      device: CUDA ordinal.
      name: names the call site in errors and in `stats()`.

    Raises:
      ValueError, TypeError: num_groups or dtype.
      RuntimeError, MemoryError: CUDA failed.
    """

    def __init__(
        self,
        num_groups: int,
        dtype: DTypeLike = "int32",
        *,
        device: int = 0,
        name: str | None = None,
    ):
        if num_groups < 0:
            rule = "be at least 0"
            raise ValueError(
                message("raw.Slot", "num_groups", rule, num_groups, "Count the groups.")
            )
        dtype = jnp.dtype(dtype)
        validation.check_group_sizes("raw.Slot", DeviceArray(0, (num_groups,), dtype))
        self.num_groups = int(num_groups)
        self.dtype = dtype
        self.device = int(device)
        self._site = call_site(name or "raw.Slot") % 2**64
        self._slot = _ffi.RawSlot(self.device, dtype.name, self.num_groups)

    def is_done(self) -> bool:
        """Whether no copy is on its way. Does not wait."""
        return self._slot.is_done()

    def wait(self) -> np.ndarray:
        """Waits for the last copy that was enqueued and returns its sizes.

        Waits for that copy alone, not for what the stream holds behind it. Not during a
        capture of the copy: nothing runs then.

        Returns:
          (num_groups,) int64, on the host.

        Raises:
          ValueError: no copy ever ran, or the next one has started.
          RuntimeError: the wait passed GG_WAIT_DEADLINE_S, or CUDA failed.
        """
        return np.array(self._slot.wait(self._site), np.int64)


def copy_group_sizes(stream, group_sizes, slot: Slot) -> None:
    """Enqueues a copy of group sizes into a slot, on the caller's stream.

    One kernel and one event record; nothing is allocated or waited for, so the stream
    may be capturing. Captured, the copy runs at each launch of the graph. CUDA allows
    no event record in the body of a conditional node, and so no copy there.

    Args:
      stream: an address, or an object with ``__cuda_stream__``.
      group_sizes: (slot.num_groups,) of slot.dtype on slot.device: a DeviceArray, or an
        object that `as_device_array` takes.
      slot: where the sizes arrive.

    Raises:
      ValueError, TypeError: group_sizes do not fit the slot.
      RuntimeError: CUDA failed.

    Source: csrc/runtime/early_copy.h, design/tickets.md.
    """
    op = "raw.copy_group_sizes"
    sizes = as_device_array("group_sizes", group_sizes, slot.device)
    if sizes.shape != (slot.num_groups,):
        rule = f"have the slot's shape {(slot.num_groups,)}"
        raise ValueError(
            message(op, "group_sizes", rule, sizes.shape, "Make a slot for them.")
        )
    if sizes.dtype != slot.dtype:
        rule = f"have the slot's dtype {slot.dtype}"
        raise TypeError(
            message(op, "group_sizes", rule, sizes.dtype, "Make a slot for it.")
        )
    if sizes.device != slot.device:
        rule = f"be on the slot's device {slot.device}"
        got = f"device {sizes.device}"
        raise ValueError(message(op, "group_sizes", rule, got, "Make a slot there."))
    slot._slot.copy(sizes.address, stream_address(stream))
