# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A GEMM uses a ticket only where its lowering can follow it to its copy."""

import re

import jax
import jax.numpy as jnp
import pytest

import graphsafe_gg as gg

FOLLOWED, NO_TICKET, NOT_FOLLOWED = 0, 1, 2
X = jnp.ones((8, 4))
W = jnp.ones((2, 4, 4))
SIZES = jnp.array([3, 5], jnp.int32)


def fallbacks(fn, *args):
    """The fallback of each async product, in program order."""
    text = jax.jit(fn).lower(*args).as_text()
    return [int(code) for code in re.findall(r"fallback = (\d)", text)]


def gemm(x, sizes):
    return gg.grouped_gemm(x, W, sizes, mode="async")


def held(x, sizes):
    return gg.copy_group_sizes(sizes, before=x)


def test_ticket_through_a_barrier_is_followed():
    assert fallbacks(lambda x, s: gemm(*held(x, s)), X, SIZES) == [FOLLOWED]


def test_ticket_shared_by_two_products_is_followed_twice():
    def two(x, s):
        x, sizes = held(x, s)
        return gemm(gemm(x, sizes), sizes)

    assert fallbacks(two, X, SIZES) == [FOLLOWED, FOLLOWED]


def test_plain_sizes_make_their_own_copy():
    assert fallbacks(gemm, X, SIZES) == [NO_TICKET]


def test_gradients_keep_no_ticket():
    def loss(x, w, s):
        x, sizes = held(x, s)
        return gg.grouped_gemm(x, w, sizes, mode="async").sum()

    codes = fallbacks(jax.grad(loss, (0, 1)), X, W, SIZES)
    assert sorted(codes) == [NO_TICKET, NO_TICKET]


def test_residuals_hold_no_ticket():
    def loss(x, s):
        x, sizes = held(x, s)
        return gemm(x, sizes)

    _, vjp = jax.vjp(lambda x: loss(x, SIZES), X)
    ticket = gg.copy_group_sizes(SIZES).ticket
    leaves = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(vjp)]
    assert (ticket.shape, ticket.dtype) not in leaves


def test_ticket_of_other_sizes_is_not_used():
    def crossed(x, s):
        ticket = gg.copy_group_sizes(s).ticket
        return gemm(x, gg.GroupSizes(s[::-1], ticket))

    assert fallbacks(crossed, X, SIZES) == [NOT_FOLLOWED]


def test_ticket_as_loop_carry_is_not_used():
    def prefetch(x, s):
        def body(carry, s):
            x, sizes = carry
            y = gemm(x, sizes)
            return held(y, s), y

        return jax.lax.scan(body, held(x, s[0]), s)[1]

    assert fallbacks(prefetch, X, jnp.stack([SIZES, SIZES])) == [NOT_FOLLOWED]


def test_ticket_as_branch_result_is_not_used():
    def branch(x, s):
        sizes = jax.lax.cond(
            x[0, 0] > 0,
            lambda: gg.copy_group_sizes(s),
            lambda: gg.copy_group_sizes(s[::-1]),
        )
        return gemm(x, sizes)

    assert fallbacks(branch, X, SIZES) == [NOT_FOLLOWED]


def test_ticket_as_argument_is_not_used():
    sizes = gg.copy_group_sizes(SIZES)
    assert fallbacks(gemm, X, sizes) == [NOT_FOLLOWED]


def test_recomputed_ticket_is_not_used():
    def recomputed(x, s):
        sizes = gg.copy_group_sizes(s)
        return gemm(x, gg.GroupSizes(sizes.sizes, sizes.ticket + jnp.uint32(0)))

    assert fallbacks(recomputed, X, SIZES) == [NOT_FOLLOWED]


def copy_targets(fn, *args):
    """Of each copy in the program, the target without prefix and version."""
    text = jax.jit(fn).lower(*args).as_text()
    return re.findall(r"@graphsafe_gg_group_sizes_(\w+)_v1", text)


def in_a_branch(then):
    def branch(x, s):
        return jax.lax.cond(x[0, 0] > 0, then, lambda x, s: (x, s), x, s)

    return branch


def copied(x, s):
    """A copy that no product waits for."""
    ticket = gg.copy_group_sizes(s).ticket
    return x, s + ticket[:2].astype(jnp.int32)


def custom(fn):
    with_rule = jax.custom_vjp(fn)
    with_rule.defvjp(lambda *args: (fn(*args), None), lambda _, ct: ct)
    return with_rule


WRAPPERS = [lambda fn: fn, jax.jit, jax.checkpoint, custom]


def test_copy_in_the_program_itself_records_its_event():
    assert copy_targets(copied, X, SIZES) == ["copy"]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_copy_in_a_branch_that_nobody_waits_for_has_no_event(wrap):
    assert copy_targets(in_a_branch(wrap(copied)), X, SIZES) == ["ticket"]


def test_copy_of_a_function_called_in_and_out_of_a_branch_has_no_event():
    """Both calls share one function: whichever is lowered first decides."""
    shared = jax.jit(copied)

    def outside_first(x, s):
        return in_a_branch(shared)(*shared(x, s))

    def inside_first(x, s):
        return shared(*in_a_branch(shared)(x, s))

    for fn in (outside_first, inside_first):
        assert set(copy_targets(fn, X, SIZES)) == {"ticket"}


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_copy_that_a_product_of_its_body_waits_for_records_its_event(wrap):
    def waited(x, s):
        x, sizes = held(x, s)
        return gemm(x, sizes), s

    assert copy_targets(in_a_branch(wrap(waited)), X, SIZES) == ["copy"]


def test_copy_in_a_loop_that_nobody_waits_for_has_no_event():
    def loop(x, s):
        return jax.lax.fori_loop(0, x.shape[0], lambda _, c: copied(*c), (x, s))

    assert copy_targets(loop, X, SIZES) == ["ticket"]


def test_copy_carries_no_call_site():
    text = jax.jit(lambda s: gg.copy_group_sizes(s).ticket).lower(SIZES).as_text()
    (line,) = (line for line in text.splitlines() if "group_sizes_copy_v1" in line)
    assert "site" not in line


@pytest.mark.parametrize("mode", ["async", "device", "sync", "auto"])
def test_every_mode_takes_group_sizes_objects(mode):
    sizes = gg.copy_group_sizes(SIZES)
    got = gg.grouped_gemm(X, W, sizes, mode=mode)
    want = gg.grouped_gemm(X, W, SIZES, mode="sync")
    assert (got == want).all()


def test_group_sizes_of_counts_rows():
    ids = jnp.array([[0, -1], [2, 2], [-1, 1]])
    assert gg.group_sizes_of(ids, 3).sizes.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("num_experts", "error", "text"),
    [
        (2.5, TypeError, "num_experts must be a Python int; got 2.5."),
        (-1, ValueError, "num_experts must be >= 0; got -1."),
    ],
)
def test_group_sizes_of_names_a_bad_number_of_experts(num_experts, error, text):
    with pytest.raises(error, match=f"group_sizes_of: {text}"):
        gg.group_sizes_of(jnp.array([0, 1]), num_experts)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_group_sizes_of_drops_ids_past_32_bits(dtype):
    with jax.enable_x64(True):
        ids = jnp.array([2**32, 2**33 + 1, 0, 1, 1], dtype)
        assert gg.group_sizes_of(ids, 2).sizes.tolist() == [1, 2]


def test_group_sizes_of_holds_the_copy_in_front():
    ids = jnp.array([0, 2, 2, 1])
    x, sizes = gg.group_sizes_of(ids, 3, before=X)
    assert (x == X).all()
    assert sizes.sizes.tolist() == [1, 1, 2]
