# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles one .cu file to a fatbin, or takes it from a folder that builds share.

The kernels do not depend on Python, so the builds for several Pythons need each of them
once. A stored fatbin is taken only if the compiler, its flags and the content of every
file that was read are the same.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def read_depfile(path: pathlib.Path) -> list[str]:
    """The inputs named by a make rule as compilers write it."""
    rule = path.read_text().replace("\\\n", " ").split(":", 1)[1]
    return [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", rule) if name]


def write_depfile(path: pathlib.Path, output: pathlib.Path, inputs: list[str]) -> None:
    escaped = [name.replace(" ", "\\ ") for name in (str(output), *inputs)]
    path.write_text(f"{escaped[0]}: {' '.join(escaped[1:])}\n")


def hash_file(path: str) -> str | None:
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def stored_inputs(
    record: pathlib.Path, fatbin: pathlib.Path, command: list
) -> list[str]:
    """The inputs of the stored fatbin if it is what `command` would make, else []."""
    try:
        stored = json.loads(record.read_text())
    except (OSError, ValueError):
        return []
    fresh = (
        stored["command"] == command
        and stored["fatbin"] == hash_file(str(fatbin))
        and all(hash_file(path) == digest for path, digest in stored["inputs"].items())
    )
    return list(stored["inputs"]) if fresh else []


def compile_into(
    folder: pathlib.Path, options: argparse.Namespace, command: list
) -> list[str]:
    """Compiles to `folder` and records what was read; returns the inputs."""
    stem = options.source.stem
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        fatbin = pathlib.Path(temporary) / f"{stem}.fatbin"
        depfile = pathlib.Path(temporary) / "inputs.d"
        outputs = ["-fatbin", "-o", fatbin, "-MMD", "-MF", depfile]
        status = subprocess.call(
            [options.nvcc, *options.flags, *outputs, options.source]
        )
        if status != 0:
            sys.exit(status)
        inputs = [os.path.abspath(name) for name in read_depfile(depfile)]
        record = pathlib.Path(temporary) / f"{stem}.json"
        content = {
            "command": command,
            "fatbin": hash_file(str(fatbin)),
            "inputs": {path: hash_file(path) for path in inputs},
        }
        record.write_text(json.dumps(content, indent=1))
        # Another build may do the same: each rename is atomic, and the record's hash of
        # the fatbin tells a pair that does not match.
        fatbin.replace(folder / fatbin.name)
        record.replace(folder / record.name)
    return inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--depfile", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("flags", nargs="+", help="flags of nvcc, after --")
    options = parser.parse_args()
    version = subprocess.check_output([options.nvcc, "--version"], text=True)
    command = [version, *options.flags]
    options.shared.mkdir(parents=True, exist_ok=True)
    stored = options.shared / f"{options.source.stem}.fatbin"
    inputs = stored_inputs(stored.with_suffix(".json"), stored, command)
    if not inputs:
        inputs = compile_into(options.shared, options, command)
    shutil.copyfile(stored, options.output)
    write_depfile(options.depfile, options.output, inputs)


if __name__ == "__main__":
    main()
