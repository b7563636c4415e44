# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What `precision` may ask for. Every kernel multiplies in the operands' type and adds
in float32, which is at least as exact as any `lax.Precision` asks for."""

import jax
import numpy as np
from jax import lax

_BUILT_PRESETS = {
    "bfloat16": {"DEFAULT", "BF16_BF16_F32"},
    "float16": {"DEFAULT", "F16_F16_F32"},
    "float32": {"DEFAULT", "F32_F32_F32"},
}


def check_precision(op: str, precision, dtype: np.dtype) -> None:
    """Raises unless the built kernels honour the setting for operands of this type."""
    if precision is None:
        precision = jax.config.jax_default_matmul_precision
    # A DotAlgorithm is one setting, though it is a tuple.
    is_pair = isinstance(precision, tuple) and not isinstance(
        precision, lax.DotAlgorithm
    )
    pair = precision if is_pair else (precision,)
    if len(pair) not in (1, 2):
        raise ValueError(
            f"{op}: precision must be one setting or a pair; got {precision!r}. "
            "Pass a lax.Precision, its name, or a DotAlgorithmPreset."
        )
    for one in pair:
        if one is not None:
            _check_one(op, one, dtype)


def _check_one(op: str, precision, dtype: np.dtype) -> None:
    if isinstance(precision, str) and precision in lax.DotAlgorithmPreset.__members__:
        precision = lax.DotAlgorithmPreset[precision]
    if isinstance(precision, lax.DotAlgorithmPreset):
        built = _BUILT_PRESETS[dtype.name]
        if precision.name not in built:
            raise NotImplementedError(
                f"{op}: precision must be a preset that is built for {dtype.name} "
                f"({', '.join(sorted(built))}); got {precision.name}. "
                "Use one of those, or a lax.Precision."
            )
        return
    if isinstance(precision, lax.DotAlgorithm):
        raise NotImplementedError(
            f"{op}: precision must not be a custom DotAlgorithm; got {precision}. "
            "Use a lax.Precision or a DotAlgorithmPreset."
        )
    try:
        lax.Precision(precision)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{op}: precision must be a lax.Precision, its name, or a "
            f"DotAlgorithmPreset; got {precision!r}. Pass one of those."
        ) from error
