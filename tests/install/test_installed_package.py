# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The installed package away from its sources, without a GPU: P-097 to P-099."""

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from support import elf

ROOT = pathlib.Path(__file__).resolve().parents[2]

USE = """
    import jax.numpy as jnp
    import graphsafe_gg as gg
    sizes = jnp.array([1, 0, 2], jnp.int32)
    out = gg.grouped_gemm(jnp.ones((4, 3)), jnp.ones((3, 3, 2)), sizes)
    assert out.tolist() == [[3, 3], [3, 3], [3, 3], [0, 0]], out
"""


@pytest.fixture(scope="module")
def installed():
    """The installed distribution; an editable one has nothing to test here."""
    distribution = importlib.metadata.distribution("graphsafe_gg")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        pytest.skip("graphsafe_gg is installed editable; these tests need a wheel")
    return distribution


@pytest.fixture(scope="module")
def extension(installed):
    (path,) = (
        file.locate()
        for file in installed.files
        if file.name.startswith("_ext.") and file.suffix == ".so"
    )
    return pathlib.Path(path)


def run_python(program, folder, **variables):
    """Runs a program in `folder`, with no HOME and only the given variables."""
    variables.setdefault("PATH", os.defpath)
    variables.setdefault("JAX_PLATFORMS", "cpu")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_package_runs_in_an_empty_folder(installed, tmp_path):
    """P-097: no HOME, no GPU, and no file of the sources is opened."""
    output = run_python(
        USE
        + """
    import sys
    for module in list(sys.modules.values()):
        print(getattr(module, "__file__", None))
    print(open("/proc/self/maps").read())
    """,
        tmp_path,
        CUDA_VISIBLE_DEVICES="",
    )
    package = str(installed.locate_file("graphsafe_gg"))
    assert f"{package}/__init__.py" in output
    sources = [
        f"{ROOT}/{folder}/" for folder in ("graphsafe_gg", "csrc", "build/wheel")
    ]
    assert [
        line for line in output.splitlines() if line.startswith(tuple(sources))
    ] == []
    assert list(tmp_path.iterdir()) == []


def snapshot(folder):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_installed_package_writes_nothing_beside_itself(installed, tmp_path):
    """P-097: a read-only site-packages is enough."""
    site = tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(
        installed.locate_file("graphsafe_gg"), site / "graphsafe_gg", ignore=ignored
    )
    for path in (site, *site.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    before = snapshot(site)
    try:
        output = run_python(
            USE + "\n    print(gg.__file__)",
            tmp_path,
            PYTHONPATH=str(site),
            PYTHONDONTWRITEBYTECODE="1",
        )
    finally:
        for path in (site, *site.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
    assert output.strip() == str(site / "graphsafe_gg/__init__.py")
    assert snapshot(site) == before


def test_installed_package_ignores_files_named_like_its_modules(installed, tmp_path):
    """P-099: the folder of the user's program holds cuda.py and namesakes of ours."""
    names = {"cuda", "cutlass", "support"}
    for file in installed.files:
        if file.suffix in (".py", ".so") and file.parts[0] == "graphsafe_gg":
            names |= {part.split(".")[0] for part in file.parts[1:]}
    for name in names - {"__init__", "__pycache__"}:
        text = f"raise ImportError({name!r} ' of the current folder was imported')\n"
        (tmp_path / f"{name}.py").write_text(text)
    run_python(USE, tmp_path)


def test_installed_package_tag_matches_extension(installed, extension):
    """P-098: the file that the tag promises is the one in the wheel."""
    lines = installed.read_text("WHEEL").splitlines()
    (tag,) = (line.split()[1] for line in lines if line.startswith("Tag:"))
    python, abi, platform = tag.split("-")
    assert platform == f"linux_{os.uname().machine}"
    if sys.version_info < (3, 12):
        short = f"{sys.version_info[0]}{sys.version_info[1]}"
        assert (python, abi) == (f"cp{short}", f"cp{short}")
        assert f".cpython-{short}-" in extension.name
    else:
        assert (python, abi) == ("cp312", "abi3")
        assert extension.name == "_ext.abi3.so"


def test_installed_package_exports_only_its_init(extension):
    """Anything more could be bound by, or to, another extension of the process."""
    assert elf.exported_symbols(extension) == ["PyInit__ext"]


def test_installed_package_links_only_the_system(extension):
    """A CPU-only machine imports the build that has the CUDA kernels."""
    system = (
        "libstdc++.so",
        "libgcc_s.so",
        "libc.so",
        "libm.so",
        "libdl.so",
        "ld-linux",
    )
    needed = elf.needed_libraries(extension)
    assert [
        name for name in needed if not name.startswith((*system, "libpthread"))
    ] == []


@pytest.fixture
def stub_driver(tmp_path):
    """A folder with a libcuda.so.1 that holds nothing."""
    compiler = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to make a stub of the driver with")
    folder = tmp_path / "driver"
    folder.mkdir()
    subprocess.run(
        [compiler, "-shared", "-x", "c++", "/dev/null", "-o", folder / "libcuda.so.1"],
        check=True,
    )
    return folder


def test_installed_package_import_opens_no_driver(installed, tmp_path, stub_driver):
    output = run_python(
        USE
        + """
    import ctypes, re
    def opened():
        maps = open("/proc/self/maps").read()
        return set(re.findall(r"/lib(cuda|cudart|cublas\\w*)\\.so", maps))
    print(sorted(opened()))
    ctypes.CDLL("libcuda.so.1")
    print(sorted(opened()))
    """,
        tmp_path,
        LD_LIBRARY_PATH=str(stub_driver),
    )
    assert output.split() == ["[]", "['cuda']"]
