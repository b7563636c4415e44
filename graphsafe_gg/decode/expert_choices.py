# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""How recorded group sizes are replayed: as expert numbers of tokens."""

import numpy as np


def expert_choices(
    group_sizes: np.ndarray, top_k: int, num_tokens: int, rng: np.random.Generator
) -> np.ndarray:
    """Routing whose counts are exactly `group_sizes`: (num_tokens, top_k) int32.

    Tokens past the recorded ones choose -1. No token chooses an expert twice unless
    that expert has more rows than there are tokens.
    """
    num_recorded = int(group_sizes.sum(dtype=np.int64)) // top_k
    by_expert = np.repeat(np.arange(len(group_sizes), dtype=np.int32), group_sizes)
    choices = np.full((num_tokens, top_k), -1, np.int32)
    # Consecutive rows of one expert go to different tokens, one choice after another.
    choices[:num_recorded] = by_expert.reshape(top_k, num_recorded).T
    return choices[rng.permutation(num_tokens)]
