# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""cmake/compile_kernel.py: one compilation for several builds, and no stale fatbin."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Stands for nvcc: counts its runs, writes the sources it read as output, and a depfile.
FAKE_NVCC = """#!{python}
import pathlib, sys
if "--version" in sys.argv:
    print("release 13.0")
    sys.exit()
source = pathlib.Path(sys.argv[-1])
header = source.with_name("shared header.cuh")
value = dict(zip(sys.argv, sys.argv[1:]))
text = source.read_text() + header.read_text()
if "error" in text:
    sys.exit("nvcc: error")
pathlib.Path(value["-o"]).write_text(text)
escaped = str(header).replace(" ", "\\\\ ")
pathlib.Path(value["-MF"]).write_text(f"out : {{source}} \\\\\\n  {{escaped}}\\n")
with open({log!r}, "a") as log:
    log.write("compiled ")
"""


@pytest.fixture
def compile_kernel(tmp_path):
    """Compiles kernel.cu for the named build; returns what the fatbin holds."""
    nvcc = tmp_path / "nvcc"
    log = tmp_path / "log"
    nvcc.write_text(FAKE_NVCC.format(python=sys.executable, log=str(log)))
    nvcc.chmod(0o755)
    (tmp_path / "kernel.cu").write_text("kernel ")
    (tmp_path / "shared header.cuh").write_text("header ")

    def run(build, *flags, check=True):
        output = tmp_path / f"{build}.fatbin"
        subprocess.run(
            (
                *(sys.executable, ROOT / "cmake/compile_kernel.py", "--nvcc", nvcc),
                *("--shared", tmp_path / "shared", "--source", tmp_path / "kernel.cu"),
                *("--output", output, "--depfile", f"{output}.d", "--", "-O3", *flags),
            ),
            check=check,
            stderr=None if check else subprocess.DEVNULL,
        )
        return output.read_text() if output.exists() else None

    run.count = lambda: log.read_text().count("compiled")
    return run


def test_kernel_store_compiles_once_for_two_builds(compile_kernel, tmp_path):
    assert compile_kernel("first") == compile_kernel("second") == "kernel header "
    assert compile_kernel.count() == 1
    header = str(tmp_path / "shared header.cuh").replace(" ", "\\ ")
    for build in ("first", "second"):
        assert header in (tmp_path / f"{build}.fatbin.d").read_text()


def test_kernel_store_sees_a_changed_header(compile_kernel, tmp_path):
    compile_kernel("first")
    (tmp_path / "shared header.cuh").write_text("other ")
    assert compile_kernel("second") == "kernel other "
    assert compile_kernel.count() == 2


def test_kernel_store_sees_other_flags(compile_kernel):
    compile_kernel("first")
    compile_kernel("second", "-G")
    assert compile_kernel.count() == 2


def test_kernel_store_does_not_take_a_damaged_fatbin(compile_kernel, tmp_path):
    compile_kernel("first")
    (tmp_path / "shared/kernel.fatbin").write_text("cut")
    assert compile_kernel("second") == "kernel header "
    assert compile_kernel.count() == 2


def test_kernel_store_keeps_nothing_of_a_failed_compilation(compile_kernel, tmp_path):
    (tmp_path / "kernel.cu").write_text("error ")
    assert compile_kernel("first", check=False) is None
    assert list((tmp_path / "shared").iterdir()) == []
