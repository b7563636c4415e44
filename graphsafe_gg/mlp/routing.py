# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Top-k routing: which experts a token goes to, and with what weight."""

import jax
import jax.numpy as jnp

from graphsafe_gg.mlp.checks import check_count, check_float, check_rank


def route(router_logits: jax.Array, top_k: int) -> tuple[jax.Array, jax.Array]:
    """Chooses `top_k` experts for each token and weights that sum to one.

    The weights are the softmax over all experts, cut to the chosen ones and
    divided by their sum (the convention of Mixtral and of Qwen3). That equals the
    softmax over the chosen logits alone, which is how it is computed: no weight
    is lost to underflow, whatever the other logits are.

    Args:
      router_logits: (t, g) bfloat16, float16 or float32; one logit per token and
        expert.
      top_k: experts per token, a Python int from 1 to g.

    Returns:
      weights: (t, top_k) float32, largest first.
      expert_idx: (t, top_k) int32, distinct in each row; of equal logits the
        lower expert number comes first.

    Raises:
      ValueError: rank of router_logits; top_k outside 1..g.
      TypeError: router_logits is not floating point, or top_k is not an int.
      NotImplementedError: float64 logits.

    Under jit, vmap and grad: works; the gradient reaches the chosen logits only.
    A row with NaN gets NaN weights; no other row sees it.
    """
    router_logits = jnp.asarray(router_logits)
    check_rank("route", "router_logits", router_logits, "t, g")
    check_float("route", "router_logits", router_logits)
    num_experts = router_logits.shape[1]
    top_k = check_count(
        "route", "top_k", top_k, num_experts, "the number of experts in router_logits"
    )
    logits, expert_idx = jax.lax.top_k(router_logits.astype(jnp.float32), top_k)
    return jax.nn.softmax(logits, axis=-1), expert_idx.astype(jnp.int32)
