# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`precision` and `jax.default_matmul_precision`: what is honoured, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support.messages import raises_text
from support.operands import DTYPES, random_operands
from support.products import assert_products_bit_equal, check_products, run_products

import graphsafe_gg as gg

NAMES = ["default", "high", "highest", "bfloat16", "tensorfloat32", "float32"]
SETTINGS = [None, *lax.Precision, *NAMES, "fastest", "bfloat16_3x"]
OWN_PRESET = {
    "bfloat16": "BF16_BF16_F32",
    "float16": "F16_F16_F32",
    "float32": "F32_F32_F32",
}
OPERANDS = {
    jnp.dtype(d).name: random_operands([5, 0, 17, 9], 40, 12, 20, d) for d in DTYPES
}

dtypes = pytest.mark.parametrize("dtype", OPERANDS)


@dtypes
def test_precision_settings_give_the_exact_product(device, dtype):
    """No setting asks for more than float32 sums of exact products, and none gets less.

    The setting enters no program, so one mode stands for all.
    """
    plain = check_products(OPERANDS[dtype])
    pairs = [(lax.Precision.HIGHEST, lax.Precision.DEFAULT), (None, "high")]
    presets = [OWN_PRESET[dtype], lax.DotAlgorithmPreset[OWN_PRESET[dtype]]]
    presets.append(lax.DotAlgorithmPreset.DEFAULT)
    for setting in [*SETTINGS, *pairs, *presets]:
        products = run_products(*OPERANDS[dtype], precision=setting)
        assert_products_bit_equal(products, plain, f"precision {setting}: ")


@dtypes
def test_precision_of_the_config(device, dtype):
    plain = run_products(*OPERANDS[dtype])
    for setting in [*NAMES, OWN_PRESET[dtype]]:
        with jax.default_matmul_precision(setting):
            assert_products_bit_equal(run_products(*OPERANDS[dtype]), plain)


@dtypes
def test_precision_presets_that_are_not_built(dtype):
    lhs, rhs, sizes, _ = OPERANDS[dtype]
    built = {"DEFAULT", OWN_PRESET[dtype]}
    for preset in lax.DotAlgorithmPreset:
        if preset.name in built:
            gg.grouped_gemm(lhs, rhs, sizes, precision=preset)
            continue
        text = (
            f"grouped_gemm: precision must be a preset that is built for {dtype} "
            f"({', '.join(sorted(built))}); got {preset.name}. "
            "Use one of those, or a lax.Precision."
        )
        for setting in (preset, preset.name, (None, preset)):
            with raises_text(NotImplementedError, text):
                gg.grouped_gemm(lhs, rhs, sizes, precision=setting)


def test_precision_preset_of_the_config_that_is_not_built():
    lhs, rhs, sizes, _ = OPERANDS["float32"]
    with (
        jax.default_matmul_precision("BF16_BF16_F32_X3"),
        pytest.raises(NotImplementedError, match="got BF16_BF16_F32_X3"),
    ):
        gg.grouped_gemm(lhs, rhs, sizes)


def test_precision_argument_wins_over_the_config(device):
    lhs, rhs, sizes, _ = OPERANDS["float32"]
    with jax.default_matmul_precision("BF16_BF16_F32_X3"):
        gg.grouped_gemm(lhs, rhs, sizes, precision="highest")


def test_precision_custom_algorithm():
    lhs, rhs, sizes, _ = OPERANDS["float32"]
    algorithm = lax.DotAlgorithm(np.float32, np.float32, np.float32, 1, 1, 1, False)
    text = (
        f"grouped_gemm: precision must not be a custom DotAlgorithm; got {algorithm}. "
        "Use a lax.Precision or a DotAlgorithmPreset."
    )
    with raises_text(NotImplementedError, text):
        gg.grouped_gemm(lhs, rhs, sizes, precision=algorithm)


@pytest.mark.parametrize("setting", ["exact", 7, 1.5, object, "", [None]])
def test_precision_unknown_setting(setting):
    lhs, rhs, sizes, _ = OPERANDS["float32"]
    text = (
        "grouped_gemm: precision must be a lax.Precision, its name, or a "
        f"DotAlgorithmPreset; got {setting!r}. Pass one of those."
    )
    with raises_text(ValueError, text):
        gg.grouped_gemm(lhs, rhs, sizes, precision=setting)


@pytest.mark.parametrize("setting", [(), ("high", "high", "high")])
def test_precision_is_one_setting_or_a_pair(setting):
    lhs, rhs, sizes, _ = OPERANDS["float32"]
    text = (
        f"grouped_gemm: precision must be one setting or a pair; got {setting!r}. "
        "Pass a lax.Precision, its name, or a DotAlgorithmPreset."
    )
    with raises_text(ValueError, text):
        gg.grouped_gemm(lhs, rhs, sizes, precision=setting)
