# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Float64 NumPy truth for the MoE layers: plain loops over tokens and groups."""

import math

import ml_dtypes
import numpy as np

_FLOAT32_EPS = float(np.finfo(np.float32).eps)


def activate(activation: str, gate: np.ndarray, up: np.ndarray | None = None):
    """Of gate and up, or of the one pre-activation of a plain activation."""
    if activation == "clamped_swiglu":
        gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
        return gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
    plain = {
        "swiglu": "silu",
        "geglu": "gelu",
        "geglu_tanh": "gelu_tanh",
        "reglu": "relu",
    }.get(activation, activation)
    assert (up is None) == (plain == activation)
    out = _activate_plain(gate, plain)
    return out if up is None else out * up


def _normal_cdf(x: float) -> float:
    return 0.5 * (1 + math.erf(x / 2**0.5))


def _activate_plain(x: np.ndarray, activation: str) -> np.ndarray:
    if activation == "silu":
        return x / (1 + np.exp(-x))
    if activation == "relu":
        return np.maximum(x, 0)
    if activation == "relu2":
        return np.maximum(x, 0) ** 2
    if activation == "gelu":
        return x * np.vectorize(_normal_cdf, otypes=[float])(x)
    assert activation == "gelu_tanh"
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mlp_of_one_expert(
    x,
    w_gate_up,
    w_down,
    activation="swiglu",
    interleaved=False,
    b_gate_up=None,
    b_down=None,
):
    """w_gate_up and b_gate_up: one array, or a pair of gate and up."""
    x = np.asarray(x, np.float64)
    is_pair = isinstance(w_gate_up, tuple)
    parts = []
    for i, w in enumerate(w_gate_up if is_pair else (w_gate_up,)):
        part = x @ np.asarray(w, np.float64)
        if b_gate_up is not None:
            part = part + np.asarray(b_gate_up[i] if is_pair else b_gate_up, np.float64)
        parts.append(part)
    is_gated = activation.endswith(("glu", "glu_tanh"))
    if is_gated and not is_pair:
        (fused,) = parts
        width = fused.shape[-1] // 2
        parts = [fused[..., :width], fused[..., width:]]
        if interleaved:
            parts = [fused[..., 0::2], fused[..., 1::2]]
    out = activate(activation, *parts) @ np.asarray(w_down, np.float64)
    return out if b_down is None else out + np.asarray(b_down, np.float64)


def _of_expert(value, expert: int):
    if isinstance(value, tuple):
        return tuple(part[expert] for part in value)
    return None if value is None else value[expert]


def _expert_mlp(
    x, expert, w_gate_up, w_down, *, b_gate_up=None, b_down=None, **options
):
    return mlp_of_one_expert(
        x,
        _of_expert(w_gate_up, expert),
        w_down[expert],
        b_gate_up=_of_expert(b_gate_up, expert),
        b_down=_of_expert(b_down, expert),
        **options,
    )


def grouped_mlp_truth(x, w_gate_up, w_down, group_sizes, **options):
    out = np.zeros(np.shape(x), np.float64)
    start = 0
    for group, size in enumerate(np.asarray(group_sizes).tolist()):
        rows = slice(start, start + size)
        out[rows] = _expert_mlp(x[rows], group, w_gate_up, w_down, **options)
        start += size
    return out


def norm_truth(x, gamma, beta=None, norm="layernorm", epsilon=1e-6):
    x = np.asarray(x, np.float64)
    if norm == "layernorm":
        x = x - x.mean(axis=1, keepdims=True)
    out = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + epsilon)
    out = out * np.asarray(gamma, np.float64)
    return out if beta is None else out + np.asarray(beta, np.float64)


def route_truth(
    router_logits,
    top_k,
    score="softmax",
    score_bias=None,
    num_expert_groups=1,
    top_k_groups=None,
    renormalize=True,
    scaling_factor=1.0,
):
    """Weights and expert numbers, one token after another."""
    logits = np.asarray(router_logits, np.float64)
    weights = np.zeros((len(logits), top_k))
    expert_idx = np.zeros((len(logits), top_k), np.int32)
    for token, row in enumerate(logits):
        scores = {
            "softmax": softmax_truth,
            "topk_softmax": np.asarray,
            "sigmoid": lambda values: 1 / (1 + np.exp(-values)),
        }[score](row)
        choosing = scores.copy()
        if score_bias is not None:
            choosing += np.asarray(score_bias, np.float64)
        if top_k_groups is not None:
            groups = choosing.reshape(num_expert_groups, -1)
            best = np.sort(groups, axis=1)[:, ::-1][:, : 1 if score_bias is None else 2]
            order = np.argsort(-best.sum(axis=1), kind="stable")
            groups[order[top_k_groups:]] = -np.inf
        chosen = np.argsort(-choosing, kind="stable")[:top_k]
        kept = scores[chosen]
        if score == "topk_softmax":
            kept = softmax_truth(kept)
        elif renormalize:
            kept = kept / kept.sum()
        weights[token], expert_idx[token] = kept * scaling_factor, chosen
    return weights, expert_idx


def softmax_truth(values):
    exponentials = np.exp(values - values.max())
    return exponentials / exponentials.sum()


def moe_mlp_truth(tokens, router_logits, w_gate_up, w_down, *, routing, **options):
    """`routing`: the arguments of `route_truth` after the logits."""
    weights, expert_idx = route_truth(router_logits, **routing)
    return routed_mlp_truth(tokens, expert_idx, weights, w_gate_up, w_down, **options)


def routed_mlp_truth(tokens, expert_idx, weights, w_gate_up, w_down, **options):
    out = np.zeros(np.shape(tokens), np.float64)
    for token, choices in enumerate(np.asarray(expert_idx)):
        for choice, expert in enumerate(choices):
            if 0 <= expert < len(w_down):
                mlp = _expert_mlp(tokens[token], expert, w_gate_up, w_down, **options)
                out[token] += float(weights[token, choice]) * mlp
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
