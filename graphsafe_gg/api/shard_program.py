# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The program of one device, as XLA's partitioner takes it."""

import numpy as np

_ELEMENTS = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
}


def program_of_one_device(
    target: str, config: str, operands, result, sum_groups
) -> str:
    """The call of one device. Sums over a sharded k are float32, rounded once."""
    types = [_tensor(shape) for shape in operands]
    layouts = ", ".join(_layout(shape) for shape in operands)
    names = [f"%arg{i}" for i in range(len(types))]
    own, out = _tensor(result), "%out"
    wide = _tensor(result, "f32") if sum_groups else own
    lines = [
        f'%out = "stablehlo.custom_call"({", ".join(names)}) <{{call_target_name = '
        f'"{target}", api_version = 4 : i32, backend_config = {config}, '
        f"operand_layouts = [{layouts}], result_layouts = [{_layout(result)}]}}> "
        f": ({', '.join(types)}) -> {wide}"
    ]
    if sum_groups:
        shape = f"tensor<{len(sum_groups)}x{len(sum_groups[0])}xi64>"
        lines += [
            '%sum = "stablehlo.all_reduce"(%out) <{channel_handle = '
            "#stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = "
            f"dense<{sum_groups}> : {shape}, use_global_device_ids}}> ({{",
            "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
            "%c = stablehlo.add %a, %b : tensor<f32>",
            "stablehlo.return %c : tensor<f32>",
            f"}}) : ({wide}) -> {wide}",
        ]
        out = "%sum"
        if wide != own:
            lines.append(f"%rounded = stablehlo.convert %sum : ({wide}) -> {own}")
            out = "%rounded"
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    body = "\n".join([*lines, f"return {out} : {own}"])
    return f"module {{\nfunc.func public @main({arguments}) -> {own} {{\n{body}\n}}\n}}"


def _tensor(shape, element: str | None = None) -> str:
    element = element or _ELEMENTS[np.dtype(shape.numpy_dtype()).name]
    return (
        "tensor<" + "".join(f"{size}x" for size in shape.dimensions()) + element + ">"
    )


def _layout(shape) -> str:
    rank = len(shape.dimensions())
    order = list(range(rank))[::-1]
    values = f"dense<{order}>" if rank else "dense<>"
    return f"{values} : tensor<{rank}xindex>"
