# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Suite `step`: a whole decode or prefill step in each mode.

Milliseconds a step without a tracer; idle time in front of each layer's first GEMM,
graph launches, captures, waiting calls and copies to the host from a traced stretch.
Each setting of XLA's command buffers runs in a process of its own.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

NUM_INPUTS = 8
WARM_UP_STEPS = 4
TRACED_STEPS = 4


def cases(is_small: bool):
    from moe_step import StepCase

    if is_small:
        return [StepCase("tiny/2t", 2, 2, 4, 4, 2, 16, 8)]
    qwen = {"num_experts": 128, "num_local": 128, "top_k": 8}
    qwen |= {"hidden": 2048, "intermediate": 768}
    deepseek = {"num_experts": 256, "num_local": 32, "top_k": 8}
    deepseek |= {"hidden": 7168, "intermediate": 2048}
    mixtral = {"num_experts": 8, "num_local": 8, "top_k": 2}
    mixtral |= {"hidden": 4096, "intermediate": 14336}
    return [
        StepCase("qwen3-30b/1t", 48, 1, **qwen),
        StepCase("qwen3-30b/64t", 48, 64, **qwen),
        StepCase("deepseek-v3-ep8/1t", 8, 1, **deepseek),
        StepCase("deepseek-v3-ep8/64t", 8, 64, **deepseek),
        StepCase("deepseek-v3-ep8/64t", 8, 64, **deepseek, has_shared_expert=True),
        StepCase("mixtral-8x7b/8192t", 4, 8192, **mixtral),
        StepCase("qwen3-30b/8192t", 4, 8192, **qwen),
        StepCase("qwen3-30b/8192t", 4, 8192, **qwen, has_shared_expert=True),
    ]


def is_gemm(name: str) -> bool:
    return name.startswith("gg_fwd")


def run_case(case, modes, tracer, seconds: float) -> list[dict]:
    import jax
    import moe_step

    layers = moe_step.make_layers(case)
    inputs = moe_step.make_inputs(case, NUM_INPUTS)
    steps, states, times = {}, {}, {mode: [] for mode in modes}
    for mode in modes:
        steps[mode] = moe_step.make_step(case, mode)
        states[mode] = moe_step.initial_state(case)

    def advance(mode):
        states[mode] = steps[mode](states[mode], inputs, layers)

    for mode in modes:
        for _ in range(WARM_UP_STEPS):
            advance(mode)
        jax.block_until_ready(states[mode])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[modes[0]]) < 5:
        for mode in modes:
            start = time.perf_counter()
            advance(mode)
            jax.block_until_ready(states[mode])
            times[mode].append((time.perf_counter() - start) * 1e3)
    rows = []
    for mode in modes:
        row = {
            "case": case.name,
            "mode": mode,
            "layers": case.num_layers,
            "shared_expert": case.has_shared_expert,
            "ms": statistics.median(times[mode]),
            "spread_ms": max(times[mode]) - min(times[mode]),
            "steps": len(times[mode]),
        }
        if tracer is not None:
            row |= traced(tracer, advance, states, mode)
        row["paths"] = host_paths(mode)
        if "cublaslt" in row["paths"]:
            # The GEMMs then bear the library's names; ours are the guards behind them.
            row["idle_us"] = row["largest_idle_us"] = None
        rows.append(row)
    reference = states[modes[-1]].tokens
    for row in rows:
        # All modes have run the same number of steps but for the traced ones.
        row["rel_err"] = moe_step.relative_error(states[row["mode"]].tokens, reference)
    return rows


def host_paths(mode: str) -> dict[str, int]:
    """Which launch the calls with known sizes took, and how often."""
    import graphsafe_gg as gg

    total: dict[str, int] = {}
    for device in gg.stats()["devices"].values():
        for name, site in device["sites"].items():
            if name.startswith(f"step.{mode}."):
                for path, count in site["host_size_launches"].items():
                    total[path] = total.get(path, 0) + count
    return total


def traced(tracer, advance, states, mode) -> dict:
    import jax
    from cupti_trace import CAPTURES, GRAPH_LAUNCHES, WAITING_CALLS

    with tracer.trace() as trace:
        for _ in range(TRACED_STEPS):
            advance(mode)
        jax.block_until_ready(states[mode])
    idle = trace.idle_before_us(is_gemm)[::2]  # each layer's first GEMM
    return {
        "idle_us": statistics.median(idle) if idle else None,
        "largest_idle_us": max(idle, default=None),
        "graph_launches": trace.num_calls(GRAPH_LAUNCHES) / TRACED_STEPS,
        "captures": trace.num_calls(CAPTURES) / TRACED_STEPS,
        # The last step's own wait for its result is not the step's.
        "syncs": max(0, trace.num_calls(WAITING_CALLS) - 1) / TRACED_STEPS,
        "d2h": trace.num_copies("DtoH") / TRACED_STEPS,
    }


def work(options) -> None:
    """The child: one setting of command buffers, rows to a file as they come."""
    tracer = None
    if not options.no_trace:
        from cupti_trace import Tracer

        tracer = Tracer()
    rows = []
    for case in cases(options.small):
        if options.cases and case.name not in options.cases:
            continue
        if options.work == "off" and case.has_shared_expert:
            continue
        try:
            found = run_case(case, options.modes, tracer, options.seconds)
        except Exception as error:  # one broken case must not lose the others
            found = [{"case": case.name, "failure": f"{type(error).__name__}: {error}"}]
        rows += [{**row, "command_buffers": options.work == "on"} for row in found]
        pathlib.Path(options.rows).write_text(json.dumps(rows))


def measure(options) -> list[dict]:
    rows = []
    for setting in ("on", "off"):
        flags = "--xla_gpu_graph_min_graph_size=1"
        if setting == "off":
            flags = "--xla_gpu_enable_command_buffer="
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rows.json"
            command = [sys.executable, __file__, "--work", setting, "--rows", str(path)]
            command += ["--seconds", str(options.seconds), "--modes", *options.modes]
            command += ["--cases", *options.cases] if options.cases else []
            command += ["--small"] if options.small else []
            command += ["--no-trace"] if options.no_trace else []
            xla_flags = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
            env = {**os.environ, "XLA_FLAGS": xla_flags}
            env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
            if options.small:
                env.pop("XLA_FLAGS")
            try:
                subprocess.run(command, env=env, check=False, timeout=options.timeout)
            except subprocess.TimeoutExpired:
                print(f"command buffers {setting}: ended after {options.timeout:.0f} s")
            if path.exists():
                rows += json.loads(path.read_text())
    return rows


def print_table(rows: list[dict]) -> None:
    for row in rows:
        if "failure" in row:
            print(f"{row['case']:24} FAILED {row['failure'][:200]}")
            continue
        extra = "".join(
            f" {key}={row[key]:.1f}"
            for key in ("idle_us", "graph_launches", "captures", "syncs", "d2h")
            if row.get(key) is not None
        )
        print(
            f"{row['case']:24} {row['mode']:7} shared={row['shared_expert']:d} "
            f"buffers={row['command_buffers']:d} {row['ms']:9.3f} ms{extra}"
        )


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="folder for the result file")
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--modes", nargs="*")
    parser.add_argument("--seconds", type=float, default=1.0, help="timed per case")
    parser.add_argument("--timeout", type=float, default=400.0, help="per setting")
    parser.add_argument("--no-trace", action="store_true")
    parser.add_argument("--small", action="store_true", help="a tiny case, for any CPU")
    parser.add_argument("--work", choices=["on", "off"], help=argparse.SUPPRESS)
    parser.add_argument("--rows", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if not options.modes:
        options.modes = ["sync", "pr2213", "async", "device"]
    return options


def main(argv=None) -> int:
    options = parse_args(argv)
    if options.work:
        work(options)
        return 0
    rows = measure(options)
    if options.out:
        import gpu_facts
        import results

        doc = results.document("step", rows, **gpu_facts.query())
        results.write(doc, pathlib.Path(options.out))
    print_table(rows)
    return 1 if any("failure" in row for row in rows) or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
