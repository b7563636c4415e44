# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The only user of what JAX does not publish: the partitioner of custom calls in XLA.

`jax.experimental.custom_partitioning` is public, but keys each call on an object of
this process: persistent caches, exported programs and other processes lose it.
"""

import functools
from collections.abc import Callable

import jax

from graphsafe_gg._errors import message

USED = (
    "jax._src.xla_bridge.register_plugin_callbacks",
    "jaxlib.xla_client.register_custom_call_partitioner",
    "jaxlib.xla_client.HloSharding.replicate",
    "jaxlib.xla_client.HloSharding.from_proto",
    "jaxlib.xla_client.OpSharding.Type.OTHER",
)

try:
    from jax._src import xla_bridge
    from jaxlib import xla_client

    _register_plugin_callbacks = xla_bridge.register_plugin_callbacks
    _register_partitioner = xla_client.register_custom_call_partitioner
    _HloSharding, _OpSharding = xla_client.HloSharding, xla_client.OpSharding
    missing = None
except (ImportError, AttributeError) as error:
    missing = str(error)


def check_available(op: str) -> None:
    """Raises where this jax has no such partitioner. Everything else works there."""
    if missing is not None:
        raise NotImplementedError(
            message(
                op,
                "a program of several devices",
                "be partitioned by XLA as in jax 0.10 to 0.12",
                f"jax {jax.__version__} ({missing})",
                "Use jax.shard_map over all mesh axes.",
            )
        )


def register(target: str, partition: Callable, infer: Callable) -> None:
    """Has XLA call `partition` for each call of a target, on every platform; and
    `infer` for the sharding of a result, where Shardy is off."""
    if missing is not None:
        return
    do_register = functools.partial(
        _register_partitioner,
        target,
        lambda sharding, *_: sharding,
        partition,
        infer,
        can_side_effecting_have_replicated_sharding=True,
    )
    do_register()
    _register_plugin_callbacks(lambda c_api: do_register(c_api=c_api))


def replicated():
    return _HloSharding.replicate()


def tiled(dims: list[int], devices: list[int], *, replicate_last: bool):
    """An array of tiles over devices. With `replicate_last` the last dimension is none
    of the array's: devices along it hold the same."""
    proto = _OpSharding()
    proto.type = _OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = dims
    proto.tile_assignment_devices = devices
    proto.replicate_on_last_tile_dim = replicate_last
    return _HloSharding.from_proto(proto)
