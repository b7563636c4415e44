# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`permute` and `unpermute`: order, counts, dropped choices, gradients, NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close

from graphsafe_gg.mlp import permute, unpermute

NUM_EXPERTS = 6
jit_permute = jax.jit(permute, static_argnums=2)


def random_case(num_tokens=17, top_k=3, hidden=5, seed=0, dropped=0.2):
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(num_tokens, hidden)).astype(np.float32)
    expert_idx = rng.integers(0, NUM_EXPERTS, (num_tokens, top_k)).astype(np.int32)
    expert_idx[rng.random(expert_idx.shape) < dropped] = -1
    weights = rng.random((num_tokens, top_k)).astype(np.float32)
    return tokens, expert_idx, weights


def permute_truth(tokens, expert_idx):
    """Rows expert by expert, tokens in order; then the dropped rows, zero."""
    rows, sizes = [], []
    for expert in range(NUM_EXPERTS):
        mine = [
            tokens[t] for t, _ in zip(*np.nonzero(expert_idx == expert), strict=True)
        ]
        rows += mine
        sizes.append(len(mine))
    dropped = expert_idx.size - len(rows)
    return np.stack(rows + [np.zeros_like(tokens[0])] * dropped), sizes


def test_permute_basic():
    tokens, expert_idx, _ = random_case()
    rows, group_sizes, _ = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    true_rows, true_sizes = permute_truth(tokens, expert_idx)
    np.testing.assert_array_equal(rows, true_rows)
    np.testing.assert_array_equal(group_sizes, true_sizes)
    assert group_sizes.dtype == jnp.int32


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32])
def test_permute_reads_any_integer_type(dtype):
    tokens, expert_idx, _ = random_case(dropped=0)
    _, group_sizes, _ = jit_permute(tokens, expert_idx.astype(dtype), NUM_EXPERTS)
    np.testing.assert_array_equal(group_sizes, permute_truth(tokens, expert_idx)[1])


@pytest.mark.parametrize(("dtype", "num_experts"), [(np.int8, 128), (np.uint8, 256)])
def test_permute_counts_more_experts_than_the_type_of_ids_holds(dtype, num_experts):
    last = num_experts - 1
    rows, sizes, _ = permute(
        jnp.ones((2, 3)), np.array([[last], [0]], dtype), num_experts
    )
    assert sizes[0] == sizes[last] == 1
    np.testing.assert_array_equal(rows, np.ones((2, 3)))


def test_permute_drops_ids_past_the_last_expert():
    tokens, expert_idx = np.ones((2, 3), np.float32), np.array([[6, 0], [-7, 99]])
    rows, group_sizes, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    np.testing.assert_array_equal(group_sizes, [1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(rows[1:], np.zeros((3, 3)))
    combined = unpermute(rows + 1, permutation, np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(combined, [[2, 2, 2], [0, 0, 0]])


def test_unpermute_basic():
    tokens, expert_idx, weights = random_case()
    rows, _, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    combined = unpermute(rows * 2, permutation, weights)
    truth = 2 * tokens * np.sum(weights * (expert_idx >= 0), axis=1, keepdims=True)
    assert_close(combined, truth, np.float32, 3)


def test_unpermute_sums_16_bit_rows_in_float32():
    # 256 + 1 + 1 rounds to 256 if each partial sum is rounded to bfloat16.
    tokens = np.array([[1.0]], jnp.bfloat16)
    rows, _, permutation = jit_permute(tokens, np.array([[0, 1, 2]]), NUM_EXPERTS)
    combined = unpermute(rows, permutation, np.array([[256.0, 1, 1]], np.float32))
    assert combined.dtype == jnp.bfloat16
    assert float(combined[0, 0]) == 258.0


def test_permute_no_tokens():
    rows, group_sizes, permutation = jit_permute(
        np.zeros((0, 4), np.float32), np.zeros((0, 2), np.int32), NUM_EXPERTS
    )
    assert rows.shape == (0, 4)
    assert not np.any(group_sizes)
    assert unpermute(rows, permutation, np.zeros((0, 2), np.float32)).shape == (0, 4)


def test_permute_all_dropped():
    tokens, expert_idx, weights = random_case(dropped=2)
    rows, group_sizes, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    assert not np.any(group_sizes)
    np.testing.assert_array_equal(unpermute(rows, permutation, weights), 0 * tokens)


def test_permute_nan_of_a_dropped_token_reaches_nothing():
    tokens, expert_idx, weights = random_case()
    expert_idx[4] = -1
    clean_rows, _, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    tokens[4], weights[4] = np.nan, np.nan
    rows, _, _ = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    np.testing.assert_array_equal(rows, clean_rows)
    dirty_rows = np.array(rows)
    dirty_rows[np.asarray(permutation.row_idx)[expert_idx < 0]] = np.nan
    combined = unpermute(dirty_rows, permutation, weights)
    assert np.isfinite(combined).all()
    np.testing.assert_array_equal(combined[4], np.zeros(5))


def test_permute_grad_is_the_transpose():
    tokens, expert_idx, _ = random_case()
    _, pullback = jax.vjp(lambda x: permute(x, expert_idx, NUM_EXPERTS)[0], tokens)
    matrix = jax.jacfwd(lambda x: permute(x, expert_idx, NUM_EXPERTS)[0])(tokens)
    cotangent = np.random.default_rng(3).normal(size=matrix.shape[:2])
    truth = np.einsum("rh,rhtc->tc", cotangent, np.asarray(matrix, np.float64))
    (grad,) = pullback(jnp.asarray(cotangent, jnp.float32))
    assert_close(grad, truth, np.float32, 3)


def test_permute_grad_sums_16_bit_rows_in_float32():
    tokens = np.ones((1, 1), jnp.bfloat16)
    _, pullback = jax.vjp(
        lambda x: permute(x, np.array([[0, 1, 2]]), NUM_EXPERTS)[0], tokens
    )
    (grad,) = pullback(np.array([[256.0], [1], [1]], jnp.bfloat16))
    assert float(grad[0, 0]) == 258.0


def test_unpermute_grad_matches_numpy():
    tokens, expert_idx, weights = random_case()
    rows, _, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    rows = np.asarray(rows) + 1
    cotangent = np.random.default_rng(4).normal(size=tokens.shape).astype(np.float32)
    _, pullback = jax.vjp(lambda r, w: unpermute(r, permutation, w), rows, weights)
    grad_rows, grad_weights = pullback(cotangent)
    true_rows = np.zeros(rows.shape)
    true_weights = np.zeros(weights.shape)
    for token, choice in np.ndindex(*weights.shape):
        row = permutation.row_idx[token, choice]
        if expert_idx[token, choice] >= 0:
            true_rows[row] = cotangent[token] * weights[token, choice]
            true_weights[token, choice] = np.dot(
                rows[row].astype(np.float64), cotangent[token]
            )
    assert_close(grad_rows, true_rows, np.float32, 5)
    assert_close(grad_weights, true_weights, np.float32, 5)


def test_permute_grad_is_zero_for_dropped_choices_with_nan():
    tokens, expert_idx, weights = random_case()
    expert_idx[4] = -1
    rows, _, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    dirty_rows = np.array(rows)
    dropped = np.asarray(permutation.row_idx)[expert_idx < 0]
    dirty_rows[dropped] = np.nan
    cotangent = np.ones(tokens.shape, np.float32)
    cotangent[4] = np.nan
    _, pullback = jax.vjp(
        lambda r, w: unpermute(r, permutation, w), dirty_rows, weights
    )
    grad_rows, grad_weights = pullback(cotangent)
    np.testing.assert_array_equal(np.asarray(grad_rows)[dropped], 0)
    np.testing.assert_array_equal(np.asarray(grad_weights)[expert_idx < 0], 0)
    _, pullback = jax.vjp(lambda x: permute(x, expert_idx, NUM_EXPERTS)[0], tokens)
    cotangent_rows = np.ones(rows.shape, np.float32)
    cotangent_rows[dropped] = np.nan
    (grad_tokens,) = pullback(cotangent_rows)
    kept = np.sum(expert_idx >= 0, axis=1, keepdims=True)
    np.testing.assert_array_equal(grad_tokens, np.broadcast_to(kept, tokens.shape))


def test_permute_moves_rows_by_unique_indices():
    """No scatter may add to one row from several threads: bits would vary."""
    tokens, expert_idx, weights = random_case()

    def loss(x, w):
        rows, _, permutation = jit_permute(x, expert_idx, NUM_EXPERTS)
        return jnp.sum(unpermute(rows, permutation, w))

    text = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(tokens, weights).as_text()
    num_scatters = text.count('"stablehlo.scatter"(')
    assert num_scatters == text.count("unique_indices = true") > 0


def test_permute_under_vmap():
    tokens, expert_idx, weights = (np.stack([a, a[::-1]]) for a in random_case())

    def there_and_back(x, idx, w):
        rows, _, permutation = jit_permute(x, idx, NUM_EXPERTS)
        return unpermute(rows, permutation, w)

    batched = jax.jit(jax.vmap(there_and_back))(tokens, expert_idx, weights)
    for i in range(2):
        one = jax.jit(there_and_back)(tokens[i], expert_idx[i], weights[i])
        np.testing.assert_array_equal(batched[i], one)


def test_permute_under_strict_promotion_and_x64():
    tokens, expert_idx, weights = random_case()
    expected = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    with (
        jax.numpy_dtype_promotion("strict"),
        jax.numpy_rank_promotion("raise"),
        jax.enable_x64(True),
    ):
        found = jit_permute(tokens, expert_idx, NUM_EXPERTS)
        unpermute(found[0], found[2], jnp.asarray(weights))
    for left, right in zip(
        jax.tree.leaves(expected), jax.tree.leaves(found), strict=True
    ):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("tokens", "expert_idx", "num_experts", "error", "text"),
    [
        ((4,), np.zeros((4, 2), np.int32), 3, ValueError, "tokens must have shape"),
        ((4, 2), np.zeros((4,), np.int32), 3, ValueError, "expert_idx must have shape"),
        ((4, 2), np.zeros((5, 2), np.int32), 3, ValueError, r"shape \(4, 2\) to match"),
        ((4, 2), np.zeros((4, 2), np.float32), 3, TypeError, "integer type"),
        ((4, 2), np.zeros((4, 2), np.int32), 0, ValueError, "num_experts must be from"),
    ],
)
def test_permute_errors(tokens, expert_idx, num_experts, error, text):
    with pytest.raises(error, match=rf"^permute: .*{text}"):
        permute(np.zeros(tokens, np.float32), expert_idx, num_experts)


def test_unpermute_errors():
    tokens, expert_idx, weights = random_case()
    rows, _, permutation = jit_permute(tokens, expert_idx, NUM_EXPERTS)
    with pytest.raises(ValueError, match=r"^unpermute: weights must have shape"):
        unpermute(rows, permutation, weights[:, :2])
    with pytest.raises(ValueError, match=r"^unpermute: rows must have shape"):
        unpermute(rows[1:], permutation, weights)
