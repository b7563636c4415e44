# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Call frames that do not fit: the handlers name the operand, before any work."""

import numpy as np
import pytest
from simulated import (
    COPY,
    DRHS,
    GEMM,
    TICKET,
    WITH_BIAS,
    WITH_GROUP_OFFSET,
    WITH_LAYER,
    product_attributes,
)

from graphsafe_gg import _testing

M, K, N, G, LAYERS = 6, 4, 5, 3, 2
FORWARD = {
    "lhs": ("float32", [M, K]),
    "rhs": ("float32", [G, K, N]),
    "sizes": ("int32", [G]),
    "out": ("float32", [M, N]),
}
STACK = FORWARD | {"rhs": ("float32", [LAYERS, G, K, N])}
WGRAD = {
    "lhs": ("float32", [M, K]),
    "dout": ("float32", [M, N]),
    "sizes": ("int32", [G]),
    "out": ("float32", [G, K, N]),
}
BIAS = {"bias": ("float32", [G, N])}
OFFSET = {"offset": ("int32", [2])}


def run(sim, target, operands, attributes):
    p = _testing.Program()
    inputs = [p.param(*of) for name, of in operands.items() if name != "out"]
    p.call(target, inputs, [p.result(*operands["out"])], attributes)
    zeros = np.zeros(4096, np.uint8)
    params = {buffer: sim.put(zeros) for buffer in inputs}
    _testing.compile(sim.raw, p).run(0, params)


def error_of(sim, target, operands, attributes):
    with pytest.raises(_testing.ExecutionError) as raised:
        run(sim, target, operands, attributes)
    assert not sim.calls(functions={"cuLaunchKernel"})
    return str(raised.value)


def case(changed, text, **attributes):
    return pytest.param(changed, attributes, text, id=text)


@pytest.mark.parametrize(
    ("changed", "attributes", "text"),
    [
        case(
            {"lhs": ("float32", [M, K, 1])}, "lhs must have rank 2; got shape (6, 4, 1)"
        ),
        case({"rhs": ("float32", [G, K])}, "rhs must have rank 3; got shape (3, 4)"),
        case({"sizes": ("int32", [G, 1])}, "group_sizes must have rank 1"),
        case({"out": ("float32", [M])}, "result must have rank 2"),
        case({"lhs": ("float64", [M, K])}, "lhs must be bfloat16, float16 or float32"),
        case({"rhs": ("float16", [G, K, N])}, "rhs must have the dtype of lhs"),
        case({"out": ("int32", [M, N])}, "result must be bfloat16, float16 or float32"),
        case({"sizes": ("float32", [G])}, "group_sizes must be an integer array"),
        case({"sizes": ("int32", [4])}, "group_sizes must have size 3 on axis 0"),
        case(
            {"sizes": ("int32", [2])},
            "group_sizes must have at least 3 entries; got 2",
            group_offset=0,
        ),
        case({"rhs": ("float32", [G, 7, N])}, "rhs must have size 4 on axis 1"),
        case(
            {"rhs": ("float32", [G, N, 7])},
            "rhs must have size 4 on axis 2",
            transpose_rhs=True,
        ),
        case({"out": ("float32", [7, N])}, "result must have size 6 on axis 0"),
        case({"out": ("float32", [M, 7])}, "result must have size 5 on axis 1"),
        case(BIAS, "the number of optional operands must be 0; got 1"),
        case({}, "an operand is missing", operands=WITH_BIAS),
        case({"bias": ("float32", [N])}, "bias must have rank 2", operands=WITH_BIAS),
        case(
            {"bias": ("float16", [G, N])},
            "bias must have the dtype of lhs",
            operands=WITH_BIAS,
        ),
        case(
            {"bias": ("float32", [4, N])},
            "bias must have size 3 on axis 0",
            operands=WITH_BIAS,
        ),
        case(
            {"bias": ("float32", [G, 7])},
            "bias must have size 5 on axis 1",
            operands=WITH_BIAS,
        ),
        case(
            STACK | {"bias": ("float32", [LAYERS + 1, G, N])},
            "bias must have size 2 on axis 0",
            operands=WITH_BIAS,
            layer=0,
        ),
        case(
            OFFSET,
            "group_offset must hold one integer; got shape (2)",
            operands=WITH_GROUP_OFFSET,
        ),
        case(
            STACK | {"layer": ("float32", [1])},
            "must be an integer array",
            operands=WITH_LAYER,
        ),
        case(STACK, "layer must be in [0, 1]; got 2", layer=2),
    ],
)
def test_boundary_names_what_does_not_fit(sim, changed, attributes, text):
    attributes = product_attributes(**attributes)
    assert text in error_of(sim, GEMM.format("device"), FORWARD | changed, attributes)


@pytest.mark.parametrize(
    ("changed", "attributes", "text"),
    [
        case({"lhs": ("float32", [M])}, "lhs must have rank 2; got shape (6)"),
        case({"dout": ("float32", [M, N, 1])}, "dout must have rank 2"),
        case({"sizes": ("int32", [])}, "group_sizes must have rank 1; got shape ()"),
        case({"out": ("float32", [G, K])}, "result must have rank 3"),
        case({"dout": ("bfloat16", [M, N])}, "dout must have the dtype of lhs"),
        case({"dout": ("float32", [7, N])}, "dout must have size 6 on axis 0"),
        case({"out": ("float32", [G, 7, N])}, "result must have size 4 on axis 1"),
        case({"out": ("float32", [G, K, 7])}, "result must have size 5 on axis 2"),
        case(BIAS, "the number of optional operands must be 0; got 1"),
        case({}, "group_offset must be in [0, 0]; got 1", group_offset=1),
    ],
)
def test_boundary_names_what_does_not_fit_a_weight_gradient(
    sim, changed, attributes, text
):
    attributes = product_attributes(**attributes)
    assert text in error_of(sim, DRHS.format("device"), WGRAD | changed, attributes)


@pytest.mark.parametrize("target", [COPY, TICKET])
def test_boundary_names_a_ticket_of_another_length(sim, target):
    operands = {"sizes": ("int8", [5]), "out": ("uint8", [36])}
    text = "copy_group_sizes: the ticket must have 40 bytes; got 36."
    assert text in error_of(sim, target, operands, {})


@pytest.mark.parametrize(
    ("target", "operands"), [(GEMM, FORWARD), (GEMM, FORWARD | BIAS), (DRHS, WGRAD)]
)
def test_boundary_takes_what_fits(sim, target, operands):
    """The frames above fail for their one fault alone."""
    attributes = product_attributes(operands=WITH_BIAS if "bias" in operands else 0)
    run(sim, target.format("device"), operands, attributes)
