# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the check says when it cannot compile."""

import graph_steps as steps
import jax
import pytest

from graphsafe_gg.testing import CompileError, CompilerMissingError, inspect_graph


@pytest.fixture
def without(monkeypatch, tmp_path):
    """Hides packages from the compiling process, and every ptxas on PATH."""

    def hide(*packages):
        for package in packages:
            (tmp_path / package).mkdir()
            (tmp_path / package / "__init__.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path)

    return hide


def test_errors_plugin_missing(without):
    without("jax_plugins")
    with pytest.raises(CompilerMissingError, match="got no JAX's CUDA plugin") as error:
        inspect_graph(steps.normalise, steps.TOKENS)
    assert f"jax-cuda13-plugin=={jax.__version__}" in str(error.value)
    assert "graphsafe_gg[graph]" in str(error.value)


@pytest.mark.usefixtures("compiler")
def test_errors_custom_call_that_is_not_registered():
    def step(x):
        return jax.ffi.ffi_call("someone_elses_call", x)(x)

    with pytest.raises(CompileError, match=r"imports=\('module"):
        inspect_graph(step, steps.TOKENS)


@pytest.mark.usefixtures("compiler")
def test_errors_flag_that_ends_the_compiler():
    with pytest.raises(CompileError, match=r"Its last words: [^$]*no_such_flag"):
        inspect_graph(
            steps.normalise, steps.TOKENS, xla_flags="--xla_gpu_no_such_flag=1"
        )


@pytest.mark.usefixtures("compiler")
def test_errors_import_that_fails():
    with pytest.raises(CompileError, match="ModuleNotFoundError"):
        inspect_graph(steps.normalise, steps.TOKENS, imports=["no_such_module"])


def test_errors_of_the_step_itself_come_through():
    def step(x):
        return x @ x

    with pytest.raises(TypeError, match="dot"):
        inspect_graph(step, steps.TOKENS)
