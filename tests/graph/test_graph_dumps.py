# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Reading XLA's dumps, on small texts in their form: no compiler."""

import pytest

from graphsafe_gg.testing._thunks import DumpError, parse_module, parse_thunks

SEQUENCE = """\
001: kCopy  [source       | next=002 (1)] kCopy
002: kWhile [prev=001 (1) | next=010 (1)]
condition:
    003: kCustomKernel [source | sink] compare grid: [1, 1, 1]
  body:
    000: kCommandBuffer [source | sink]
        004: kDynamicSliceFusion [source | next=006 (1)] params=3, results=1
            005: kCustomCall [source | sink] kCustomCall
        006: kConditional [prev=004 (1) | sink]
          branch_0:
            007: kCustomKernel [source | sink] zero
          branch_1:
            008: kWhile [source | sink]
condition:
                009: kCustomKernel [source | sink] inner_compare
              body:
                011: kCustomKernel [source | sink] inner_body
010: kCustomCall [prev=002 (1) | sink] kCustomCall
"""

MODULE = """\
HloModule jit_step, is_scheduled=true

%fused (p0: bf16[8,4], p1: s32[]) -> bf16[4] {
  %p0 = bf16[8,4]{1,0} parameter(0)
  ROOT %call.1 = bf16[4]{0} custom-call(%p0), CALL
}

ENTRY %main.9 (x: bf16[8,4]) -> bf16[4] {
  %x = bf16[8,4]{1,0} parameter(0)
  %loop.2 = (s32[], /*index=1*/bf16[8,4]{1,0}) while(%tuple.1), LOOP
  %out.3 = bf16[8,4]{1,0} get-tuple-element(%loop.2), index=1
  ROOT %slice_fusion = bf16[4]{0} fusion(%out.3, %x), kind=kCustom, calls=%fused
}
"""

CALL = (
    'custom_call_target="graphsafe_gg_drhs_device_v1", '
    'metadata={op_name="jit(step)/drhs"}, '
    "backend_config={site = -12 : i64, transpose_rhs = false}"
)
LOOP = 'condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"6"}}'


def outline(thunks):
    return [(thunk.thunk_id, thunk.branch, outline(thunk.children)) for thunk in thunks]


def test_dumps_thunk_tree_follows_the_indentation():
    assert outline(parse_thunks(SEQUENCE)) == [
        (1, "", []),
        (
            2,
            "",
            [
                (3, "condition", []),
                (
                    0,
                    "body",
                    [
                        (4, "", [(5, "", [])]),
                        (
                            6,
                            "",
                            [
                                (7, "branch_0", []),
                                (
                                    8,
                                    "branch_1",
                                    [(9, "condition", []), (11, "body", [])],
                                ),
                            ],
                        ),
                    ],
                ),
            ],
        ),
        (10, "", []),
    ]


def test_dumps_unknown_line_is_an_error():
    with pytest.raises(DumpError, match="a thunk must stand on the line"):
        parse_thunks("something else\n")


def test_dumps_module_has_instructions_with_their_attributes():
    module = parse_module(MODULE.replace("CALL", CALL).replace("LOOP", LOOP))
    assert module.computations["fused"] == ("p0", "call.1")
    call = module.instructions["call.1"]
    assert (call.opcode, call.operands) == ("custom-call", ("p0",))
    assert call.target == "graphsafe_gg_drhs_device_v1"
    assert (call.site, call.op_name) == (-12, "jit(step)/drhs")
    loop = module.instructions["loop.2"]
    assert (loop.opcode, loop.operands, loop.trip_count) == ("while", ("tuple.1",), 6)
    assert module.instructions["slice_fusion"].operands == ("out.3", "x")
    assert module.instructions["x"].trip_count is None
