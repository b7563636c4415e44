# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Float64 NumPy truth for the MoE layers: plain loops over tokens and groups."""

import math

import ml_dtypes
import numpy as np

_FLOAT32_EPS = float(np.finfo(np.float32).eps)


def activate(gate: np.ndarray, activation: str) -> np.ndarray:
    if activation == "silu":
        return gate / (1 + np.exp(-gate))
    if activation == "relu":
        return np.maximum(gate, 0)
    if activation == "gelu":
        return gate * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / 2**0.5)))(gate)
    inner = np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + np.tanh(inner))


def mlp_of_one_expert(x, w_gate_up, w_down, activation="silu"):
    x, w_gate_up, w_down = (np.asarray(a, np.float64) for a in (x, w_gate_up, w_down))
    width = w_gate_up.shape[-1] // 2
    gate, up = x @ w_gate_up[:, :width], x @ w_gate_up[:, width:]
    return (activate(gate, activation) * up) @ w_down


def grouped_mlp_truth(x, w_gate_up, w_down, group_sizes, activation="silu"):
    out = np.zeros(np.shape(x), np.float64)
    start = 0
    for group, size in enumerate(np.asarray(group_sizes)):
        rows = slice(start, start + size)
        out[rows] = mlp_of_one_expert(
            x[rows], w_gate_up[group], w_down[group], activation
        )
        start += size
    return out


def route_truth(router_logits, top_k):
    logits = np.asarray(router_logits, np.float64)
    expert_idx = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    weights = np.take_along_axis(probabilities, expert_idx, axis=1)
    return weights / weights.sum(axis=1, keepdims=True), expert_idx


def routed_mlp_truth(tokens, expert_idx, weights, w_gate_up, w_down, activation="silu"):
    out = np.zeros(np.shape(tokens), np.float64)
    for token, choices in enumerate(np.asarray(expert_idx)):
        for choice, expert in enumerate(choices):
            if 0 <= expert < len(w_gate_up):
                out[token] += float(weights[token, choice]) * mlp_of_one_expert(
                    tokens[token], w_gate_up[expert], w_down[expert], activation
                )
    return out


def relative_tolerance(dtype, *widths: int) -> float:
    """Bound on the error over the largest value, for products of these widths.

    Each of the at most five roundings to `dtype` adds half an eps; a float32 sum of
    k random terms adds about sqrt(k) eps of float32, taken four times for safety.
    """
    rounding = 2.5 * float(ml_dtypes.finfo(dtype).eps)
    return rounding + 4 * sum(math.sqrt(k) for k in widths) * _FLOAT32_EPS


def assert_close(actual, truth, dtype, *widths: int) -> None:
    """Compares values, and names the worst coordinate and both values."""
    actual, truth = np.asarray(actual, np.float64), np.asarray(truth, np.float64)
    assert actual.shape == truth.shape
    if not truth.size:
        return
    limit = relative_tolerance(dtype, *widths) * max(np.abs(truth).max(), 1e-30)
    error = np.abs(actual - truth)
    worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
    assert error[worst] <= limit, (
        f"at {tuple(map(int, worst))}: got {actual[worst]}, "
        f"expected {truth[worst]}, limit {limit}"
    )
