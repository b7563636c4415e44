# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Programs on the simulated driver, and the numbers they must give."""

import contextlib

import numpy as np

from graphsafe_gg import _testing

GEMM = "graphsafe_gg_grouped_gemm_{}_v2"
DRHS = "graphsafe_gg_drhs_{}_v2"
COPY = "graphsafe_gg_group_sizes_copy_v1"
TICKET = "graphsafe_gg_group_sizes_ticket_v1"
TICKET_HEADER_BYTES = 32

OUT_OF_MEMORY = 2
LAUNCH_FAILED = 719

# Calls that create or destroy what a graph may still use, or that make the host wait.
ALLOCATING = {
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemAlloc",
    "cuMemFree",
    "cuEventCreate",
    "cuEventDestroy",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuKernelGetFunction",
    "cuFuncSetAttribute",
    "cuDevicePrimaryCtxRetain",
}
WAITING = {"cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"}
POLLING = {"cuEventQuery", "cuStreamQuery"}
HANDLER_STAGES = {
    "instantiate",
    "prepare",
    "initialize",
    "execute-eager",
    "execute-capture",
}


class Simulation:
    """The extension's simulation, and what a test expects it to hold at its end."""

    def __init__(self, **options):
        self.raw = _testing.open(**options)
        self.left = None
        self.expected_violations = []
        self.allowed_leaks = set()

    def __getattr__(self, name):
        return getattr(self.raw, name)

    def finish_quietly(self):
        """Closes ahead of the fixture, which then has nothing left to check."""
        self.left = self.raw.close()

    def finish(self):
        if self.left is not None:
            return
        violations = self.raw.violations()
        left = self.raw.close()
        for expected in self.expected_violations:
            assert any(expected in text for text in violations), expected
        unexpected = [
            text
            for text in violations
            if not any(expected in text for expected in self.expected_violations)
        ]
        assert not unexpected
        leaks = {name: left[name] for name in ("events", "pinned", "user_objects")}
        for name in self.allowed_leaks:
            leaks.pop(name)
        assert not any(leaks.values()), f"the runtime left {leaks}"

    def put(self, array, on=0):
        array = np.ascontiguousarray(array)
        buffer = self.raw.buffer(on, array.nbytes)
        buffer.write(array.tobytes())
        return buffer

    def calls(self, *, stages=HANDLER_STAGES, functions=None):
        """Logged calls as (function, stage), of handlers unless told otherwise."""
        return [
            (function, stage)
            for function, stage, *_ in self.raw.log()
            if stage in stages and (functions is None or function in functions)
        ]


def expected_gemm(lhs, rhs, sizes, transpose_rhs=False):
    """Float32 truth under the clamp rules of device mode."""
    lhs, rhs = np.asarray(lhs, np.float32), np.asarray(rhs, np.float32)
    if transpose_rhs:
        rhs = rhs.transpose(0, 2, 1)
    out = np.zeros((lhs.shape[0], rhs.shape[2]), np.float32)
    row = 0
    for group, size in enumerate(sizes):
        end = min(row + max(int(size), 0), lhs.shape[0])
        out[row:end] = lhs[row:end] @ rhs[group]
        row = end
    return out


def expected_drhs(lhs, dout, sizes):
    out = np.zeros((len(sizes), lhs.shape[1], dout.shape[1]), np.float32)
    row = 0
    for group, size in enumerate(sizes):
        end = min(row + max(int(size), 0), lhs.shape[0])
        out[group] = lhs[row:end].T @ dout[row:end]
        row = end
    return out


def route(state, num_groups, m):
    """What the kernel gg_test_route draws; the state comes out stepped."""

    def draw(state):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return state, state >> 33

    state, drawn = draw(state)
    left, cap, sizes = m, (12, 50, 1000)[drawn % 3], []
    for _ in range(num_groups):
        state, drawn = draw(state)
        sizes.append(drawn % (min(left, cap) + 1))
        left -= sizes[-1]
    return state, sizes


@contextlib.contextmanager
def loop(program, num_iterations, blocks_host=False):
    program.begin_loop(num_iterations, blocks_host)
    yield
    program.end_loop()


def ticket_bytes(num_groups, size_bytes=4):
    return TICKET_HEADER_BYTES + -(-num_groups * size_bytes // 4) * 4


def copy_call(program, sizes, num_groups, *, storage="temp", target=COPY, size_bytes=4):
    """Adds the early copy and returns its ticket."""
    make = getattr(program, storage)
    ticket = make("uint8", [ticket_bytes(num_groups, size_bytes)])
    program.call(target, [sizes], [ticket])
    return ticket


WITH_TICKET, WITH_BIAS, WITH_GROUP_OFFSET, WITH_LAYER = 1, 2, 4, 8


def product_attributes(mode="device", *, site=1, **attributes):
    """Those that every product has; `operands` names what stands behind the sizes."""
    defaults = {
        "transpose_rhs": False,
        "site": site,
        "fallback": 0,
        "operands": WITH_TICKET if mode == "async" else 0,
        "group_offset": -1,
        "layer": -1,
    }
    return defaults | attributes


def gemm_call(program, mode, inputs, out, **attributes):
    program.call(
        GEMM.format(mode), inputs, [out], product_attributes(mode, **attributes)
    )


class Operands:
    """Random lhs and rhs, on the host and on one simulated device."""

    def __init__(self, sim, *, m=6, k=4, n=3, g=3, seed=0, on=0):
        rng = np.random.default_rng(seed)
        self.m, self.k, self.n, self.g, self.on = m, k, n, g, on
        self.lhs = rng.standard_normal((m, k), np.float32)
        self.rhs = rng.standard_normal((g, k, n), np.float32)
        self.lhs_buffer = sim.put(self.lhs, on)
        self.rhs_buffer = sim.put(self.rhs, on)

    def expected(self, sizes):
        return expected_gemm(self.lhs, self.rhs, sizes)

    def read(self, buffer):
        return np.frombuffer(buffer.read(), np.float32).reshape(self.m, self.n)


class Gemm:
    """One program with one product, and in async mode its copy, run with many sizes."""

    def __init__(
        self, sim, mode="device", *, site=1, operands=None, delay=0, **options
    ):
        self.sim, self.mode, self.site = sim, mode, site
        self.operands = operands or Operands(sim)
        o = self.operands
        p = self.program = _testing.Program()
        self.lhs = p.param("float32", [o.m, o.k])
        self.rhs = p.param("float32", [o.g, o.k, o.n])
        self.sizes = p.param("int32", [o.g])
        self.out = p.result("float32", [o.m, o.n])
        inputs = [self.lhs, self.rhs, self.sizes]
        if delay:
            p.kernel("gg_test_delay", [], [delay])
        if mode == "async":
            inputs.append(copy_call(p, self.sizes, o.g))
        gemm_call(p, mode, inputs, self.out, site=site)
        self.executable = _testing.compile(sim.raw, p, **options)
        self.sizes_buffer = None

    def params(self, sizes):
        """Sizes go to a fresh buffer of the allocator's choice, as a router's would."""
        o = self.operands
        self.sizes_buffer = self.sim.put(np.asarray(sizes, np.int32), o.on)
        return {
            self.lhs: o.lhs_buffer,
            self.rhs: o.rhs_buffer,
            self.sizes: self.sizes_buffer,
        }

    def run(self, sizes):
        """The result's buffer; its work may still be pending."""
        return self.executable.run(self.operands.on, self.params(sizes))[self.out]

    def check(self, sizes):
        got = self.operands.read(self.run(sizes))
        np.testing.assert_allclose(
            got, self.operands.expected(sizes), rtol=1e-5, atol=1e-6
        )

    def warm_up(self):
        """Two runs: eager, then captured."""
        self.check([2, 2, 2])
        self.check([1, 0, 3])
        return self

    @property
    def counters(self):
        return self.executable.counters()

    @property
    def stats(self):
        return _testing.site_stats(self.operands.on, self.site)


class Copies:
    """A program that makes many copies of sizes and uses none."""

    def __init__(self, sim, *, num_copies, g, on=0, **options):
        self.sim, self.g, self.on = sim, g, on
        p = _testing.Program()
        self.sizes = p.param("int32", [g])
        for _ in range(num_copies):
            copy_call(p, self.sizes, g)
        self.executable = _testing.compile(sim.raw, p, **options)
        self.buffer = sim.put(np.zeros(g, np.int32), on)

    def run(self):
        self.executable.run(self.on, {self.sizes: self.buffer})


# Sizes so many that 64 slots fill the pinned memory that slots may take.
MANY_GROUPS = 2000
MORE_THAN_ALL_SLOTS = 70
