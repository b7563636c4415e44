# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Building from the sources that are shipped: case P-096, and the choice of nvcc.

Uses the build environment that `make` keeps; without one the tests have nothing to run.
"""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def build_bin():
    """Folder of the programs that build the package."""
    folder = ROOT / "build" / f"env-{sys.implementation.cache_tag}" / "bin"
    if not (folder / "cmake").exists():
        pytest.skip("no build environment; `make test` makes one")
    return folder


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def offline(build_bin):
    """An environment in which pip and anything that honours a proxy reach nothing."""
    nowhere = "http://127.0.0.1:9"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    return {
        **{name: nowhere for name in names},
        "PATH": f"{build_bin}:{os.defpath}",
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_build_from_sdist_offline(build_bin, tmp_path):
    """P-096: the sdist holds all that a build needs; no network, no git.

    The package that is tested has the test-only extension, a built one has not.
    """
    make_sdist = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    run(build_bin / "python", "-c", make_sdist, tmp_path, cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "/tests/" in name]
    # pip unpacks it in a folder of its own.
    run(
        *(build_bin / "python", "-m", "pip", "wheel", "--no-deps"),
        *("--no-build-isolation", "--config-settings=cmake.define.GG_CUDA=OFF"),
        # Unoptimised: it compiles in half the time, and the same files are read.
        *("--config-settings=cmake.build-type=Debug", "-w", tmp_path, sdist),
        cwd=tmp_path,
        env=offline(build_bin),
    )
    (wheel,) = tmp_path.glob("*.whl")
    built = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }
    installed = {
        str(file)
        for file in importlib.metadata.distribution("graphsafe_gg").files
        if file.parts[0] == "graphsafe_gg" and "__pycache__" not in file.parts
    }
    assert {name for name in installed if "/_testing." not in name} == built


def fake_nvcc(folder, release):
    folder.mkdir()
    program = folder / "nvcc"
    program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}'\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def configure(build_bin, tmp_path):
    """Runs cmake's configure step; returns exit status and messages, one line."""

    def run_cmake(choice, path=(), **variables):
        folders = [str(folder) for folder in (*path, build_bin)]
        done = subprocess.run(
            (
                *(build_bin / "cmake", "-S", ROOT, "-B", tmp_path / "build"),
                *("-G", "Ninja", f"-DPython_EXECUTABLE={build_bin / 'python'}"),
                f"-DGG_CUDA={choice}",
            ),
            env={"PATH": ":".join([*folders, os.defpath]), **variables},
            capture_output=True,
            text=True,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run_cmake


def test_build_cuda_off_ignores_nvcc(configure, tmp_path):
    fake_nvcc(tmp_path / "toolkit", "13.0")
    status, messages = configure("OFF", path=[tmp_path / "toolkit"])
    assert status == 0
    assert "CUDA kernels: not built (GG_CUDA=OFF)" in messages


@pytest.mark.parametrize("choice", ["AUTO", "ON"])
def test_build_cuda_takes_the_nvcc_on_path(configure, tmp_path, choice):
    nvcc = fake_nvcc(tmp_path / "toolkit", "13.7")
    status, messages = configure(choice, path=[nvcc.parent])
    assert status == 0
    assert f"CUDA kernels: nvcc 13.7 ({nvcc})" in messages


def test_build_cuda_prefers_the_nvcc_that_is_named(configure, tmp_path):
    on_path = fake_nvcc(tmp_path / "toolkit", "13.7")
    named = fake_nvcc(tmp_path / "named", "13.6")
    status, messages = configure("ON", path=[on_path.parent], CUDACXX=str(named))
    assert status == 0
    assert f"CUDA kernels: nvcc 13.6 ({named})" in messages


def test_build_cuda_says_that_the_nvcc_is_too_old(configure, tmp_path):
    old = fake_nvcc(tmp_path / "old", "12.4")
    status, messages = configure("AUTO", CUDACXX=str(old))
    assert status == 0
    assert f"CUDACXX ({old}) is not an nvcc of 12.9 or newer" in messages


def test_build_cuda_choice_is_checked(configure):
    status, messages = configure("maybe")
    assert status != 0
    assert "GG_CUDA must be ON, OFF or AUTO; got maybe." in messages
