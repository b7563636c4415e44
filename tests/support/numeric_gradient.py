# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients against finite differences of a float64 truth."""

from collections.abc import Callable, Sequence

import numpy as np

_STEP = 1e-6


def assert_gradients_close(
    truth: Callable[..., np.ndarray],
    operands: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    cotangent: np.ndarray,
    tolerance: float,
) -> None:
    """Compares along one random direction of each operand, and names the operand.

    Args:
      truth: operands in float64 -> result in float64.
      gradients: of sum(result * cotangent), one for each operand.
      tolerance: error of a gradient entry over the largest one. Errors of the entries
        are independent, so those of their sum along a direction grow with its length.
    """
    rng = np.random.default_rng(7)
    wide = [np.asarray(operand, np.float64) for operand in operands]
    for i, gradient in enumerate(gradients):
        gradient = np.asarray(gradient, np.float64)
        assert gradient.shape == wide[i].shape
        direction = rng.normal(size=gradient.shape)
        sides = []
        for step in (_STEP, -_STEP):
            moved = [*wide[:i], wide[i] + step * direction, *wide[i + 1 :]]
            sides.append(np.sum(truth(*moved) * cotangent))
        numeric = (sides[0] - sides[1]) / (2 * _STEP)
        found = np.sum(gradient * direction)
        largest = max(float(np.abs(gradient).max(initial=0)), 1.0)
        limit = 4 * tolerance * largest * max(float(np.linalg.norm(direction)), 1.0)
        # The differences themselves: eps of float64 over the step, and their curvature.
        limit += 1e-8 * (1 + abs(sides[0]))
        assert abs(found - numeric) <= limit, (
            f"operand {i}: got {found}, expected {numeric}, limit {limit}"
        )
