# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm` refuses what it cannot do: which exception, and its exact text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.messages import raises_text

import graphsafe_gg as gg

LHS = np.zeros((8, 4), np.float32)
RHS = np.zeros((3, 4, 5), np.float32)
SIZES = np.array([2, 0, 3], np.int32)


def assert_refuses(exception, text, *operands, **options):
    """Eagerly and while tracing, before anything runs."""
    with raises_text(exception, text):
        gg.grouped_gemm(*operands, **options)
    with raises_text(exception, text):
        jax.jit(lambda *a: gg.grouped_gemm(*a, **options)).trace(*operands)


@pytest.mark.parametrize(
    ("lhs", "rhs", "sizes", "text"),
    [
        (
            LHS[0],
            RHS,
            SIZES,
            "lhs must have shape (m, k); got (4,). Pass rank 2.",
        ),
        (
            LHS[None],
            RHS,
            SIZES,
            "lhs must have shape (m, k); got (1, 8, 4). Pass rank 2.",
        ),
        (
            LHS,
            RHS[0],
            SIZES,
            "rhs must have shape (g, k, n); got (4, 5). Pass rank 3.",
        ),
        (
            LHS,
            RHS,
            SIZES[None],
            "group_sizes must have shape (g,); got (1, 3). Pass rank 1.",
        ),
        (
            LHS,
            RHS,
            np.int32(8),
            "group_sizes must have shape (g,); got (). Pass rank 1.",
        ),
        (
            LHS,
            RHS[:, :3],
            SIZES,
            "rhs must have shape (g, 4, n) to match lhs; got (3, 3, 5). "
            "lhs has k = 4; set transpose_rhs if rhs is stored the other way round.",
        ),
        (
            LHS,
            RHS,
            SIZES[:2],
            "group_sizes must have one entry for each of the 3 groups of rhs; "
            "got shape (2,). Count the rows of every group, empty ones included.",
        ),
    ],
    ids=[
        "lhs_rank_1",
        "lhs_rank_3",
        "rhs_rank_2",
        "sizes_rank_2",
        "sizes_rank_0",
        "k_differs",
        "too_few_sizes",
    ],
)
def test_grouped_gemm_errors_shapes(lhs, rhs, sizes, text):
    assert_refuses(ValueError, f"grouped_gemm: {text}", lhs, rhs, sizes)


def test_grouped_gemm_errors_shapes_transposed():
    """With transpose_rhs the message speaks of the layout that was asked for."""
    assert_refuses(
        ValueError,
        "grouped_gemm: rhs must have shape (g, n, k); got (4, 5). Pass rank 3.",
        LHS,
        RHS[0],
        SIZES,
        transpose_rhs=True,
    )
    assert_refuses(
        ValueError,
        "grouped_gemm: rhs must have shape (g, n, 4) to match lhs; got (3, 4, 5). "
        "lhs has k = 4; set transpose_rhs if rhs is stored the other way round.",
        LHS,
        RHS,
        SIZES,
        transpose_rhs=True,
    )


@pytest.mark.parametrize("mode", ["", "DEVICE", "fast", None, 3])
def test_grouped_gemm_errors_unknown_mode(mode):
    assert_refuses(
        ValueError,
        "grouped_gemm: mode must be one of 'auto', 'sync', 'device', 'async'; "
        f"got {mode!r}. Use 'auto'.",
        LHS,
        RHS,
        SIZES,
        mode=mode,
    )


@pytest.mark.parametrize("argument", ["lhs", "rhs"])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.bool_, jnp.float8_e4m3fn])
def test_grouped_gemm_errors_operand_type(argument, dtype):
    operands = {"lhs": LHS, "rhs": RHS}
    operands[argument] = operands[argument].astype(dtype)
    assert_refuses(
        TypeError,
        f"grouped_gemm: {argument} must be bfloat16, float16 or float32; "
        f"got {np.dtype(dtype)}. Cast it.",
        *operands.values(),
        SIZES,
    )


@pytest.mark.parametrize("argument", ["lhs", "rhs"])
def test_grouped_gemm_errors_float64(argument):
    operands = {"lhs": LHS, "rhs": RHS}
    operands[argument] = operands[argument].astype(np.float64)
    with jax.enable_x64(True):
        assert_refuses(
            NotImplementedError,
            f"grouped_gemm: {argument} must be bfloat16, float16 or float32; "
            "got float64. float64 is not built; cast to float32.",
            *operands.values(),
            SIZES,
        )


@pytest.mark.parametrize(
    ("lhs_dtype", "rhs_dtype"),
    [
        (jnp.bfloat16, jnp.float32),
        (jnp.float32, jnp.bfloat16),
        (jnp.float16, jnp.bfloat16),
    ],
)
def test_grouped_gemm_errors_mixed_types(lhs_dtype, rhs_dtype):
    names = (jnp.dtype(lhs_dtype).name, jnp.dtype(rhs_dtype).name)
    assert_refuses(
        TypeError,
        f"grouped_gemm: rhs must have lhs's dtype {names[0]}; got {names[1]}. "
        "Cast one of them.",
        LHS.astype(lhs_dtype),
        RHS.astype(rhs_dtype),
        SIZES,
    )


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.bool_])
def test_grouped_gemm_errors_type_of_sizes(dtype):
    """Floats and booleans are no counts, even if they hold whole numbers."""
    assert_refuses(
        TypeError,
        "grouped_gemm: group_sizes must have an integer dtype; "
        f"got {jnp.dtype(dtype).name}. "
        "Count rows in int32, for example with jnp.bincount.",
        LHS,
        RHS,
        SIZES.astype(dtype),
    )


@pytest.mark.parametrize("dtype", [np.int32, jnp.float8_e5m2, np.complex64, "nonsense"])
def test_grouped_gemm_errors_preferred_element_type(dtype):
    assert_refuses(
        TypeError,
        "grouped_gemm: preferred_element_type must be bfloat16, float16 or float32; "
        f"got {dtype}. Cast the result instead.",
        LHS,
        RHS,
        SIZES,
        preferred_element_type=dtype,
    )


def test_grouped_gemm_errors_preferred_float64():
    assert_refuses(
        NotImplementedError,
        "grouped_gemm: preferred_element_type must be bfloat16, float16 or float32; "
        "got float64. float64 is not built; cast to float32.",
        LHS,
        RHS,
        SIZES,
        preferred_element_type=np.float64,
    )


def test_grouped_gemm_errors_options_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        gg.grouped_gemm(LHS, RHS, SIZES, "device")


@pytest.mark.parametrize("platform", ["tpu", "rocm"])
def test_grouped_gemm_errors_other_platforms(platform):
    text = (
        f"grouped_gemm: the platform must be cpu or cuda; got {platform}. Use "
        "jax.lax.ragged_dot there."
    )
    traced = jax.jit(gg.grouped_gemm).trace(LHS, RHS, SIZES)
    with raises_text(NotImplementedError, text):
        traced.lower(lowering_platforms=(platform,))
