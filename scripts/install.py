# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Builds the package's wheel and installs it into a virtual environment.

Needs the standard library only; everything else is installed where it is needed:
`build/env-*` holds what builds the wheel, the given environment what runs it. Each step
is skipped when its inputs are those of the last run.
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
import sysconfig
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SOURCES = ("csrc", "cmake", "graphsafe_gg", "CMakeLists.txt", "pyproject.toml")
ALSO_PACKED = ("README.md", "LICENSE", "NOTICE")
# The oldest CUDA 13 toolkit: its kernels load on every driver that CUDA 13 runs on.
NVCC_RELEASE = "13.0"


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def run(*command: object, **options) -> None:
    try:
        subprocess.run([str(part) for part in command], check=True, **options)
    except subprocess.CalledProcessError as error:
        sys.exit(f"install: exit status {error.returncode}: {' '.join(error.cmd)}")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def fingerprint(*inputs: object) -> str:
    """Hash of the sources and of whatever else decides what the wheel holds."""
    digest = hashlib.sha256(repr(inputs).encode())
    for name in SOURCES + ALSO_PACKED:
        path = ROOT / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def native_sources() -> str | None:
    """Hash of the compiled sources as results carry it; None without benchmarks."""
    program = ROOT / "benchmarks" / "sources.py"
    if not program.exists():
        return None
    command = [sys.executable, program, "native"]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def read_stamp(path: pathlib.Path) -> dict:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def python_of(env: pathlib.Path) -> pathlib.Path:
    return env / "bin" / "python"


def make_env(env: pathlib.Path) -> None:
    """Makes a virtual environment of this Python, unless there is one."""
    identity = [sys.version, os.path.realpath(sys.executable)]
    stamp = env / "python.json"
    if python_of(env).exists() and read_stamp(stamp).get("python") == identity:
        return
    say(f"virtual environment {env} with Python {sys.version.split()[0]}")
    run(sys.executable, "-m", "venv", "--clear", env)
    stamp.write_text(json.dumps({"python": identity}))


def pip(env_folder: pathlib.Path, *arguments: object, env: dict | None = None) -> None:
    quiet = ("-q", "--disable-pip-version-check")
    run(python_of(env_folder), "-m", "pip", *quiet, *arguments, env=env)


def has_gpu() -> bool:
    try:
        found = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0 and "GPU" in found.stdout


def nvcc_release(nvcc: str) -> str | None:
    """Release of an nvcc that runs and is new enough, as cmake/kernels.cmake asks."""
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
    except OSError:
        return None
    found = re.search(r"release (\d+)\.(\d+)", text.stdout)
    if found is None or (int(found[1]), int(found[2])) < (12, 9):
        return None
    return f"{found[1]}.{found[2]}"


def system_nvcc() -> tuple[str, str] | None:
    """Path and release of the machine's own nvcc."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or ""
    for candidate in (
        os.environ.get("CUDACXX"),
        home and f"{home}/bin/nvcc",
        shutil.which("nvcc"),
        "/usr/local/cuda/bin/nvcc",
    ):
        release = nvcc_release(candidate) if candidate else None
        if candidate and release:
            return candidate, release
    return None


def build_env(pip_nvcc: bool) -> pathlib.Path:
    """The environment with what pyproject.toml asks for to build, cmake and ninja."""
    settings = project()
    env = BUILD / f"env-{sys.implementation.cache_tag}"
    make_env(env)
    wanted = [*settings["build-system"]["requires"], "cmake>=3.24", "ninja>=1.11"]
    if pip_nvcc:
        wanted += settings["project"]["optional-dependencies"]["nvcc"]
    stamp = env / "requirements.json"
    if read_stamp(stamp).get("requirements") != wanted:
        say("installing what the build needs")
        pip(env, "install", *wanted)
        stamp.write_text(json.dumps({"requirements": wanted}))
    return env


def build_environment(env: pathlib.Path, cuda: bool, nvcc: str | None) -> dict:
    """Environment variables of a build with the programs in `env`."""
    environment = dict(os.environ)
    environment["PATH"] = f"{env / 'bin'}:{environment.get('PATH', os.defpath)}"
    if cuda:
        packages = sysconfig.get_path("platlib", vars={"base": env, "platbase": env})
        environment["CUDACXX"] = nvcc or f"{packages}/nvidia/cu13/bin/nvcc"
    return environment


def build_wheel(
    folder: pathlib.Path, cuda: bool, testing: bool, exact_nvcc: bool
) -> pathlib.Path:
    """Builds the wheel into `folder`, unless the one there was built from the same."""
    nvcc, release = (system_nvcc() if cuda else None) or (None, None)
    if exact_nvcc and release != NVCC_RELEASE:
        nvcc, release = None, None
    key = fingerprint(sys.version, cuda, testing, nvcc, release)
    stamp = folder / "wheel.json"
    built = read_stamp(stamp)
    if built.get("fingerprint") == key and (folder / built["wheel"]).exists():
        return folder / built["wheel"]
    env = build_env(pip_nvcc=cuda and nvcc is None)
    kernels = f"nvcc {release or NVCC_RELEASE + ' from pip'}" if cuda else "off"
    extension = ", with the test extension" if testing else ""
    say(f"building the wheel (CUDA kernels: {kernels}{extension})")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("graphsafe_gg-*.whl"):
        old.unlink()
    settings = {
        "cmake.define.GG_CUDA": "ON" if cuda else "OFF",
        "cmake.define.GG_KERNEL_BUILD_DIR": BUILD / "kernels",
        "cmake.define.GG_TESTING": "ON" if testing else "OFF",
        "build-dir": BUILD / "wheel" / "{wheel_tag}",
    }
    pip(
        *(env, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT),
        *(f"--config-settings={name}={value}" for name, value in settings.items()),
        env=build_environment(env, cuda, nvcc),
    )
    (wheel,) = folder.glob("graphsafe_gg-*.whl")
    made = {"fingerprint": key, "wheel": wheel.name, "sources": native_sources()}
    stamp.write_text(json.dumps(made))
    return wheel


def has_test_extension(env: pathlib.Path) -> bool:
    return any(env.glob("lib/python*/site-packages/graphsafe_gg/_testing.*.so"))


def install(env: pathlib.Path, wheel: pathlib.Path, extras: set[str], jax: str) -> None:
    """Installs the wheel with its extras, unless they are there already."""
    make_env(env)
    stamp = env / "graphsafe_gg.json"
    before = read_stamp(stamp)
    extras |= set(before.get("extras", ()))
    state = {
        "wheel": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "extras": sorted(extras),
        "jax": jax or before.get("jax", ""),
        "dependencies": project()["project"],
    }
    if state == before:
        return
    say(f"installing {wheel.name} with {', '.join(sorted(extras)) or 'no extras'}")
    pinned = ["jax", "jaxlib"] + ["jax-cuda13-plugin"] * ("graph" in extras)
    pins = [f"{name}=={state['jax']}" for name in pinned] if state["jax"] else []
    pip(env, "install", "--force-reinstall", "--no-deps", wheel)
    with_extras = f"{wheel}[{','.join(sorted(extras))}]" if extras else wheel
    pip(env, "install", with_extras, *pins)
    stamp.write_text(json.dumps(state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", type=pathlib.Path, help="install here after building")
    parser.add_argument("--extras", default="", help="extras of the package, by comma")
    parser.add_argument("--jax", default="", help="version of jax and jaxlib to pin")
    parser.add_argument(
        "--testing",
        action="store_true",
        help="build the test-only extension too; an environment that has it keeps it",
    )
    parser.add_argument(
        "--cuda",
        default="auto",
        type=str.lower,
        choices=("auto", "on", "off"),
        help="compile the CUDA kernels; auto: if a GPU works here",
    )
    parser.add_argument("--wheel-dir", type=pathlib.Path, help="keep the wheel here")
    parser.add_argument(
        "--exact-nvcc",
        action="store_true",
        help=f"compile with nvcc {NVCC_RELEASE}, from pip if it is not on the machine",
    )
    options = parser.parse_args()
    gpu = has_gpu()
    cuda = gpu if options.cuda == "auto" else options.cuda == "on"
    testing = options.testing or (options.env and has_test_extension(options.env))
    kind = f"{sys.implementation.cache_tag}-{'cuda' if cuda else 'cpu'}"
    kind += "-testing" if testing else ""
    folder = (options.wheel_dir or BUILD / "dist" / kind).resolve()
    wheel = build_wheel(folder, cuda, bool(testing), options.exact_nvcc)
    if options.env:
        extras = {extra for extra in options.extras.split(",") if extra}
        if gpu:
            extras.add("cuda13")
        install(options.env, wheel, extras, options.jax)
    else:
        say(f"made {wheel}")


if __name__ == "__main__":
    main()
