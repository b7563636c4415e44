# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Calls inside one jitted JAX step: ours in each mode, and what JAX has besides. XLA
captures such a step as a command buffer where every call in it allows that."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from baselines import first_line
from dlpack import Exported
from timing import NUM_CALLS
from workload import Dims, Workload

import graphsafe_gg as gg

# The fewest calls that XLA makes a command buffer of.
_FEW_CALLS = 5
_LARGE_RESULT_BYTES = 1 << 28

Product = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


class JitContestant:
    """A step of several calls in a row. Each run writes over the last run's results."""

    def __init__(
        self,
        device,
        name: str,
        product: Product,
        workload: Workload,
        compiler_options: dict | None = None,
        num_calls: int = 0,
    ):
        is_large = workload.out_bytes > _LARGE_RESULT_BYTES
        self.name = name
        self.num_calls = num_calls or (_FEW_CALLS if is_large else NUM_CALLS)
        self._device = device
        self._operands = _operands(device, workload)
        shape, dtype = workload.dims.out_shape, jnp.dtype(workload.dtype)
        place = self._operands[0].sharding
        self._results = [
            jax.device_put(jnp.zeros(shape, dtype), place)
            for _ in range(self.num_calls)
        ]
        step = jax.jit(
            functools.partial(_step, product), donate_argnums=3, keep_unused=True
        )
        lowered = step.lower(*self._operands, self._results)
        self._step = lowered.compile(compiler_options=compiler_options)

    def run(self) -> None:
        self._results = self._step(*self._operands, self._results)

    def wait(self) -> None:
        jax.block_until_ready(self._results)

    def poison(self) -> None:
        """Fills the results, which the next run takes over, with NaN."""
        self.wait()
        for result in self._results:
            address = result.unsafe_buffer_pointer()
            self._device.fill_bytes(address, 0xFF, result.nbytes)
        self._device.synchronize()

    @property
    def result(self) -> int:
        """Address of the last call's result."""
        self.wait()
        return self._results[-1].unsafe_buffer_pointer()

    def release(self) -> None:
        self.wait()
        self._results = []


def _step(product: Product, a, b, sizes, scratch):
    """`scratch` is donated: XLA writes the results over it.

    The barrier makes each call wait for the one before, and keeps XLA from merging two.
    """
    results = []
    for _ in scratch:
        result = product(a, b, sizes)
        a, result = jax.lax.optimization_barrier((a, result))
        results.append(result)
    return results


def _operands(device, workload: Workload) -> tuple[jax.Array, jax.Array, jax.Array]:
    dims = workload.dims

    def array(address: int, shape: tuple[int, ...], dtype: str) -> jax.Array:
        return jax.dlpack.from_dlpack(Exported(device, address, shape, dtype))

    return (
        array(workload.a, dims.a_shape, workload.dtype),
        array(workload.copies[0], dims.b_shape, workload.dtype),
        array(workload.group_sizes, (dims.g,), "int32"),
    )


def ours(dims: Dims, mode: str) -> Product:
    if not dims.is_drhs:
        return functools.partial(
            gg.grouped_gemm, mode=mode, transpose_rhs=dims.transpose_rhs
        )

    def drhs(lhs, dout, sizes):
        weights = jnp.zeros((dims.g, dims.k, dims.n), lhs.dtype)
        product = functools.partial(gg.grouped_gemm, lhs, mode=mode, group_sizes=sizes)
        _, transpose = jax.vjp(lambda rhs: product(rhs=rhs), weights)
        return transpose(dout)[0]

    return drhs


def ragged_dot(dims: Dims) -> Product:
    contracting = ((1,), (2 if dims.transpose_rhs else 1,))
    numbers = jax.lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(
            (((0,), (0,)) if dims.is_drhs else contracting),
            ((), ()),
        ),
        lhs_ragged_dimensions=[0],
        rhs_group_dimensions=[] if dims.is_drhs else [0],
    )
    return lambda a, b, sizes: jax.lax.ragged_dot_general(
        a, b, sizes, ragged_dot_dimension_numbers=numbers
    )


def _mgpu_ragged_dot(dims: Dims) -> Product:
    from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu

    if dims.is_drhs:
        raise NotImplementedError("no weight gradient")
    block_n = next((size for size in (128, 64) if dims.n % size == 0), None)
    if block_n is None or dims.k % 64:
        raise NotImplementedError("n and k must be multiples of 64")
    return lambda a, b, sizes: ragged_dot_mgpu.ragged_dot(
        a,
        b,
        group_sizes=sizes,
        block_m=64 if dims.m <= 64 * dims.g else 128,
        block_n=block_n,
        block_k=64,
        max_concurrent_steps=4,
        grid_block_n=1,
        transpose_rhs=dims.transpose_rhs,
    )


def _tokamax_ragged_dot(dims: Dims) -> Product:
    import tokamax

    if dims.is_drhs or dims.transpose_rhs:
        raise NotImplementedError("timed for the forward product in layout gkn alone")
    return lambda a, b, sizes: tokamax.ragged_dot(a, b, sizes)


def jit_baselines(
    device, workload: Workload, names: tuple[str, ...]
) -> tuple[list[JitContestant], dict[str, str]]:
    """The baselines of these names that compile here, and why the others do not."""
    fusion = {"xla_gpu_experimental_use_ragged_dot_fusion": True}
    builders: dict[str, tuple[Callable[[Dims], Product], dict | None]] = {
        "lax.ragged_dot": (ragged_dot, None),
        "lax.ragged_dot fusion": (ragged_dot, fusion),
        "pallas ragged_dot_mgpu": (_mgpu_ragged_dot, None),
        "tokamax": (_tokamax_ragged_dot, None),
    }
    found, missing = [], {}
    for name in builders:
        if name not in names:
            continue
        build, options = builders[name]
        try:
            product = build(workload.dims)
            contestant = JitContestant(device, name, product, workload, options)
            contestant.run()
            contestant.wait()
            found.append(contestant)
        except Exception as error:
            missing[name] = first_line(error)
    return found, missing
