# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the architecture that text search can hold: no compiler, no GPU.

Each rule keeps a property that no other test sees break: one place for traits keeps
"what is graph-safe" answerable, one table of driver calls keeps the simulated driver
complete, one importer of the extension keeps the rest testable without it.
"""

import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CXX = (".cc", ".h", ".cu", ".cuh")
SOURCE_SUFFIXES = (*CXX, ".in", ".py", ".pyi", ".sh", ".cmake", ".map")
# Handlers that XLA captures into graphs live here and nowhere else.
GRAPH_SAFE = {"csrc/ffi/grouped_gemm_cuda.cc", "csrc/ffi/group_sizes_copy.cc"}


def files(*folders, suffixes=CXX, without=()):
    """Sources under the folders as {path relative to the root: text}."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in suffixes and not name.startswith(tuple(without)):
                found[name] = path.read_text()
    assert found, f"no sources under {folders}"
    return found


def lines_with(pattern, sources):
    """`file:line: text` of each line that matches."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]


def package_modules(*without):
    return files("graphsafe_gg", suffixes=(".py",), without=without)


def test_layout_only_ffi_imports_the_extension():
    found = lines_with(
        r"^\s*(from|import)\b.*\b_ext\b", package_modules("graphsafe_gg/_ffi.py")
    )
    assert found == []


def test_layout_one_module_uses_what_jax_does_not_publish():
    without = ("graphsafe_gg/_xla_partitioner.py", "graphsafe_gg/testing/")
    private = r"\bjax\._src\b|^\s*(from|import)\s+jaxlib\b"
    assert lines_with(private, package_modules(*without)) == []


def test_layout_package_does_not_import_its_command():
    modules = package_modules("graphsafe_gg/decode/", "graphsafe_gg/__main__.py")
    assert lines_with(r"^\s*(from|import)\s+graphsafe_gg\.decode\b", modules) == []


def test_layout_package_does_not_import_its_test_tools():
    found = lines_with(
        r"^\s*(from|import)\s+graphsafe_gg(\.testing\b|\s+import\b.*\btesting\b)",
        package_modules("graphsafe_gg/testing/", "graphsafe_gg/decode/"),
    )
    assert found == []


def test_layout_environment_is_read_in_one_module():
    python = package_modules("graphsafe_gg/_config.py")
    assert lines_with(r"\bos\.environ\b|\bgetenv\b", python) == []
    assert lines_with(r"\bgetenv\b", files("csrc")) == []


def test_layout_error_strings_are_read_in_one_file():
    sources = files(
        "csrc",
        without=(
            "csrc/runtime/check.cc",
            "csrc/runtime/cuda_api.h",  # the table
            "csrc/testing/",  # the simulated driver implements them
        ),
    )
    assert lines_with(r"get_error_(name|string)|GetError(Name|String)", sources) == []


def test_layout_traits_appear_only_in_the_table():
    sources = files("csrc", without=("csrc/ffi/registrations.cc", "csrc/testing/"))
    assert lines_with(r"\bTraits::|kCmdBufferCompatible", sources) == []


def graph_safe_handlers():
    text = (ROOT / "csrc/ffi/registrations.cc").read_text()
    calls = re.findall(
        r"XLA_FFI_DEFINE_HANDLER\(\s*\w+,\s*(\w+),(.*?)\);", text, re.DOTALL
    )
    return {function for function, rest in calls if "kGraphSafe" in rest}


def test_layout_graph_safe_handlers_are_defined_in_graph_safe_files():
    handlers = graph_safe_handlers()
    assert handlers, "no handler has the trait"
    sources = files("csrc/ffi", suffixes=(".cc",))
    for handler in handlers:
        definition = rf"^ffi::Error {handler}\("
        homes = {
            name for name, text in sources.items() if re.search(definition, text, re.M)
        }
        assert len(homes) == 1, f"{handler} is defined in {homes}"
        assert homes <= GRAPH_SAFE


def test_layout_graph_safe_files_do_not_wait_allocate_or_copy():
    forbidden = (
        r"synchroni[sz]e\(|event_query|is_done|wait_for|copy_and_wait|mem_host_alloc"
        r"|mem_alloc|PinnedBuffer|size_copies|memcpy_\w+\("
    )
    sources = {name: (ROOT / name).read_text() for name in GRAPH_SAFE}
    assert lines_with(forbidden, sources) == []


def test_layout_copies_to_the_host_are_asynchronous_and_in_one_file():
    sources = files("csrc", without=("csrc/runtime/early_copy.cc", "csrc/testing/"))
    found = lines_with(r"\bmemcpy_[dh]to[dh]", sources)
    assert [
        line for line in found if not line.startswith("csrc/runtime/cuda_api.h")
    ] == []
    assert lines_with(r'"cuMemcpy(?!\w*Async)', files("csrc/runtime")) == []


def test_layout_nothing_names_the_cuda_runtime_library():
    """The driver API alone: libcudart keeps a current device per thread unseen."""
    assert (
        lines_with(r"<<<|\bcudart\b|\bcuda[A-Z]\w*\(|<cuda_runtime", files("csrc"))
        == []
    )


@pytest.mark.parametrize("folder", ["csrc/runtime", "csrc/cpu", "csrc/kernels"])
def test_layout_only_ffi_knows_xla(folder):
    assert lines_with(r'#include [<"](xla|ffi)/', files(folder)) == []


def test_layout_host_code_of_kernels_calls_no_driver():
    sources = files("csrc/kernels", suffixes=(".cc", ".h"))
    assert lines_with(r"cuda_api|\bCU[a-z]\w+\b|#include \"runtime/", sources) == []


def test_layout_targets_carry_a_version():
    text = (ROOT / "csrc/ffi/registrations.cc").read_text()
    targets = re.findall(r'\{"(graphsafe_gg\w*)"', text)
    assert targets
    assert [name for name in targets if not re.search(r"_v\d+$", name)] == []


def test_layout_every_source_is_built():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    listed = set(re.findall(r"csrc/[\w/]+\.cc", cmake))
    present = set(files("csrc", suffixes=(".cc",), without=("csrc/testing/",)))
    assert present == listed
    cmake = (ROOT / "cmake/testing.cmake").read_text()
    listed = set(re.findall(r"csrc/testing/[\w/]+\.cc", cmake))
    assert set(files("csrc/testing", suffixes=(".cc",))) == listed


def test_layout_every_kernel_file_is_built():
    cmake = (ROOT / "cmake/kernels.cmake").read_text()
    block = re.search(r"set\(GG_KERNEL_SOURCES(.*?)\)", cmake, re.DOTALL)
    present = {path.stem for path in (ROOT / "csrc/kernels").rglob("*.cu")}
    assert set(block[1].split()) == present


def all_sources():
    folders = ("csrc", "cmake", "graphsafe_gg", "tests", "benchmarks", "examples")
    sources = files(*folders, "scripts", suffixes=SOURCE_SUFFIXES)
    for name in ("CMakeLists.txt", "Makefile", ".ci/run"):
        sources[name] = (ROOT / name).read_text()
    return sources


def test_layout_every_source_names_its_licence():
    missing = [
        name
        for name, text in all_sources().items()
        if text
        and not re.search(
            r"SPDX-FileCopyrightText: The graphsafe_gg authors.*\n"
            r".*SPDX-License-Identifier: Apache-2\.0",
            "\n".join(text.splitlines()[:4]),
        )
    ]
    assert missing == []


def test_layout_open_work_carries_an_issue_number():
    sources = all_sources()
    del sources["tests/unit/test_layout.py"]
    assert lines_with(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))", sources) == []


def test_layout_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    init = (ROOT / "graphsafe_gg/__init__.py").read_text()
    version = re.search(r'^__version__ = "(.*)"$', init, re.M)
    assert version[1] == project["version"]
