# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The copy of sizes and all three products on raw streams."""

import numpy as np
from support.cuda_graphs import Gpu, Stream
from support.operands import poison_tail, random_operands
from support.products import Products, assert_products_close, truth_of

from graphsafe_gg import raw


class RawLayer:
    """Operands with an allocation each, and a slot for their sizes."""

    def __init__(
        self, gpu: Gpu, dtype, *, m=190, k=72, n=136, g=6, transpose_rhs=False, seed=0
    ):
        self.gpu, self.transpose_rhs = gpu, transpose_rhs
        sizes = np.zeros(g, np.int32)
        self.host = random_operands(
            sizes, m, k, n, dtype, transpose_rhs=transpose_rhs, seed=seed
        )
        lhs, rhs, _, dout = self.host
        self.lhs, self.rhs, self.dout, self.sizes = map(
            gpu.put, (lhs, rhs, dout, sizes)
        )
        self.results = Products(*map(gpu.put, (dout, lhs, rhs)))
        self.slot = raw.Slot(g, name="raw.layer")
        raw.initialize_grouped_gemm(*self._forward(), transpose_rhs=transpose_rhs)
        raw.initialize_grouped_gemm(*self._for_lhs(), transpose_rhs=not transpose_rhs)
        raw.initialize_drhs(*self._for_rhs())

    def _forward(self):
        return self.lhs, self.rhs, self.sizes, self.results.out

    def _for_lhs(self):
        return self.dout, self.rhs, self.sizes, self.results.dlhs

    def _for_rhs(self):
        pair = (self.dout, self.lhs) if self.transpose_rhs else (self.lhs, self.dout)
        return *pair, self.sizes, self.results.drhs

    def set_sizes(self, sizes, stream: Stream) -> None:
        """New sizes, NaN in the rows past their sum and in the results."""
        self.host = self.host._replace(group_sizes=np.asarray(sizes, np.int32))
        stream.synchronize()
        poisoned = poison_tail(self.host)
        for array, values in (
            (self.sizes, self.host.group_sizes),
            (self.lhs, poisoned.lhs),
            (self.dout, poisoned.dout),
        ):
            self.gpu.write(array, values)
        for result in self.results:
            self.gpu.fill_nan(result, stream)

    def copy(self, stream) -> None:
        raw.copy_group_sizes(stream, self.sizes, self.slot)

    def multiply(self, stream) -> None:
        raw.grouped_gemm(stream, *self._forward(), transpose_rhs=self.transpose_rhs)
        raw.grouped_gemm(stream, *self._for_lhs(), transpose_rhs=not self.transpose_rhs)
        raw.drhs(stream, *self._for_rhs())

    def enqueue(self, stream) -> None:
        self.copy(stream)
        self.multiply(stream)

    def enqueue_forked(self, stream: Stream, side: Stream) -> None:
        """The products beside the copy, on a stream that is joined."""
        side.wait_for(stream)
        self.copy(stream)
        self.multiply(side)
        stream.wait_for(side)

    def check(self, stream: Stream, what: str = "") -> Products:
        """The host's sizes and the device's results; the results as arrays."""
        np.testing.assert_array_equal(self.slot.wait(), self.host.group_sizes, what)
        stream.synchronize()
        actual = Products(*map(self.gpu.read, self.results))
        assert_products_close(actual, truth_of(self.host, self.transpose_rhs), what)
        return actual
