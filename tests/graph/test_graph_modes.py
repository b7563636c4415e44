# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Modes that wait on the host: they split the graph at the GEMM, and nowhere else."""

import functools

import graph_steps as steps
import jax
import jax.export
import jax.numpy as jnp
import pytest

import graphsafe_gg as gg
from graphsafe_gg.testing import inspect_graph
from graphsafe_gg.testing.graph_report import MISPLACED

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.slow]


@functools.cache
def decode_report(mode):
    return inspect_graph(steps.unrolled(mode), *steps.unrolled_args(2))


def gemms(report):
    return [call for call in report.calls if call.call.product != "group_sizes_copy"]


def copies(report):
    return [call for call in report.calls if call.call.product == "group_sizes_copy"]


def assert_splits_only_at_gemms(report):
    assert [found.operation for found in report.findings] == gemms(report)
    assert all(found.is_blocking for found in report.findings)
    assert all(gemm.graph is None for gemm in gemms(report))


def assert_right_behind_its_producer(report, copy):
    (producer,) = copy.inputs
    assert report.position(copy.instruction) == report.position(producer) + 1, (
        report.table()
    )


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_modes_decode_step_splits_exactly_at_the_gemms(mode):
    report = decode_report(mode)
    assert_splits_only_at_gemms(report)
    assert [gemm.call.name for gemm in gemms(report)] == [
        "layer0.gate_up",
        "layer0.down",
        "layer1.gate_up",
        "layer1.down",
    ]
    assert {gemm.call.mode for gemm in gemms(report)} == {mode}
    # One graph in front of each layer's GEMMs.
    assert len(report.graphs) == 2


def test_modes_sync_makes_no_early_copy():
    assert copies(decode_report("sync")) == []


def test_modes_async_copy_is_captured_right_behind_its_producer():
    report = decode_report("async")
    assert [copy.graph for copy in copies(report)] == [0, 1]
    for copy in copies(report):
        assert_right_behind_its_producer(report, copy)
        # Work of the same graph is left to run while the host waits for the event.
        graph = report.graphs[copy.graph]
        assert graph.operations.index(copy) < len(graph.operations) - 1


def test_modes_async_scan_copies_early_in_the_body():
    report = inspect_graph(steps.scanned("async"), *steps.scanned_args(2))
    (copy,) = copies(report)
    assert_splits_only_at_gemms(report)
    assert_right_behind_its_producer(report, copy)
    assert copy.graph is not None


def test_modes_async_gradient_step_splits_only_at_the_products():
    report = inspect_graph(steps.trained("async"), *steps.trained_args(2))
    assert_splits_only_at_gemms(report)
    assert all(copy.graph is not None for copy in copies(report))


def work_behind_the_sizes(x, w, expert_idx, hold):
    """Sizes, a copy of them, three dense products, and only then the GEMMs."""
    if hold:
        x, sizes = gg.group_sizes_of(expert_idx, steps.NUM_EXPERTS, before=x)
    else:
        sizes = gg.group_sizes_of(expert_idx, steps.NUM_EXPERTS)
    for _ in range(3):
        x = jnp.tanh(x @ w[0])
    return steps.pair(x, w, sizes, "async")


@functools.cache
def held_report(hold):
    x, w, _ = steps.PAIR_ARGS
    expert_idx = steps.shape(x.shape[0], dtype=jnp.int32)
    step = functools.partial(work_behind_the_sizes, hold=hold)
    return inspect_graph(jax.jit(step), x, w, expert_idx)


def test_modes_held_copy_stands_right_behind_its_producer():
    report = held_report(hold=True)
    (copy,) = copies(report)
    assert_right_behind_its_producer(report, copy)
    assert report.position(copy.instruction) < 2
    assert copy.graph == 0


def test_modes_copy_that_is_not_held_comes_late():
    """Why `before=` exists: XLA then puts the copy just in front of its consumer."""
    report = held_report(hold=False)
    (copy,) = copies(report)
    first_gemm = gemms(report)[0]
    assert (
        report.position(copy.instruction) == report.position(first_gemm.instruction) - 1
    )


def copies_in_a_branch(x, w, sizes, branch):
    """A copy whose ticket leaves the branch, so that XLA must keep it."""

    def copied(x):
        x, sizes_of = gg.copy_group_sizes(sizes * 2, before=x)
        return steps.pair(x, w, sizes_of), sizes_of.ticket

    branch = branch(copied)
    x, ticket = jax.lax.cond(sizes[0] > 3, branch, lambda x: branch(x + 1), x)
    # Enough operations stand around the conditional for a graph.
    return steps.pair(x, w, sizes), ticket


@pytest.mark.parametrize("branch", [lambda fn: fn, jax.jit, jax.checkpoint])
def test_modes_copy_in_a_branch_is_captured_with_the_conditional(branch):
    """No product waits for it, so it has no event, which CUDA would not allow there."""
    step = functools.partial(copies_in_a_branch, branch=branch)
    report = inspect_graph(step, *steps.PAIR_ARGS)
    assert [copy.call.mode for copy in copies(report)] == ["ticket"] * 2
    assert report.findings == ()
    assert [copy.graph for copy in copies(report)] == [0] * 2


@pytest.mark.parametrize("branch", [lambda fn: fn, jax.jit])
def test_modes_copy_that_a_branch_waits_for_keeps_the_conditional_out(branch):
    """The GEMM is never captured, so the branch is none of a graph's: the copy is."""

    def step(x, w, sizes):
        def waiting(x):
            for _ in range(3):
                x = jnp.tanh(x @ w[0])
            x, copied = gg.copy_group_sizes(sizes * 2, before=x)
            return steps.pair(x, w, copied, "async")

        x = jax.lax.cond(sizes[0] > 3, branch(waiting), lambda x: x + 1, x)
        return steps.pair(x, w, sizes)

    report = inspect_graph(step, *steps.PAIR_ARGS)
    (copy,) = copies(report)
    assert copy.call.mode == "early"
    assert MISPLACED not in {found.verdict for found in report.findings}
    (conditional,) = (op for op in report.operations if op.kind == "kConditional")
    assert conditional.graph is None


def exported(fn, *args):
    """The function as another process would load it."""
    checks = gg.export_safety_checks()
    shapes = [jax.ShapeDtypeStruct(arg.shape, arg.dtype) for arg in args]
    export = jax.export.export(jax.jit(fn), platforms=["cuda"], disabled_checks=checks)
    return jax.jit(export(*shapes).call)


def exported_in_a_branch(program):
    def step(x, w, sizes):
        run = exported(program, x, sizes)
        x, *rest = jax.lax.cond(
            sizes[0] > 3, run, lambda x, sizes: run(x + 1, sizes), x, sizes
        )
        return steps.pair(x, w, sizes), rest

    return inspect_graph(step, *steps.PAIR_ARGS)


def test_modes_copy_of_an_exported_program_may_stand_in_a_branch():
    """Its ticket leaves the program, so that XLA must keep it."""

    def held(x, sizes):
        x, copied = gg.copy_group_sizes(sizes * 2, before=x)
        return jnp.tanh(x) + 1, copied.ticket

    report = exported_in_a_branch(held)
    assert [copy.call.mode for copy in copies(report)] == ["ticket"] * 2
    assert [copy.graph for copy in copies(report)] == [0] * 2
    assert report.findings == ()


def test_modes_copy_of_an_exported_program_is_early_where_its_gemm_waits():
    def waiting(x, sizes):
        w = jnp.ones(steps.PAIR_ARGS[1].shape, steps.DTYPE)
        x, copied = gg.copy_group_sizes(sizes * 2, before=x)
        return [gg.grouped_gemm(jnp.tanh(x), w, copied, mode="async")]

    report = exported_in_a_branch(waiting)
    assert [copy.call.mode for copy in copies(report)] == ["early"] * 2
    assert MISPLACED not in {found.verdict for found in report.findings}


def test_modes_copy_whose_gemm_xla_removes_is_named():
    """The ticket leaves the branch and the product is thrown away: XLA keeps the copy
    with its event and captures the conditional, which CUDA refuses."""

    def step(x, w, sizes):
        def wasteful(x):
            x, copied = gg.copy_group_sizes(sizes * 2, before=x)
            y = gg.grouped_gemm(x, w, copied, mode="async")
            return jnp.where(False, y, x), copied.ticket

        x, ticket = jax.lax.cond(sizes[0] > 3, wasteful, lambda x: wasteful(x + 1), x)
        return steps.pair(x, w, sizes), ticket

    report = inspect_graph(step, *steps.PAIR_ARGS)
    assert copies(report)
    assert {found.operation for found in report.findings} == set(copies(report))
    assert {found.verdict for found in report.findings} == {MISPLACED}
