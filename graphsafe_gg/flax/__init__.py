# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""MoE layers as Flax modules: `graphsafe_gg.flax.nnx` and `graphsafe_gg.flax.linen`.

Nothing else of the package imports this one, so that Flax stays optional.
"""

try:
    import flax as flax
except ImportError as error:
    raise ImportError(
        "graphsafe_gg.flax: flax must be installed. Run pip install "
        "'graphsafe_gg[flax]'."
    ) from error
