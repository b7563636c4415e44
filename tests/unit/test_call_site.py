# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which call site a call belongs to: its name, or what follows from where it stands."""

import re

import jax
import jax.numpy as jnp
import pytest

import graphsafe_gg as gg
from graphsafe_gg.api.call_site import call_site_name

X = jnp.ones((8, 4))
W = jnp.ones((2, 4, 4))
SIZES = jnp.array([3, 5], jnp.int32)
GEMM = "grouped_gemm[2x4x4 float32]"


def sites(fn, *args):
    """Names of the call sites in a program, in its order."""
    text = jax.jit(fn).lower(*args).as_text()
    return [call_site_name(int(site)) for site in re.findall(r"site = (-?\d+)", text)]


def gemm(x, name=None):
    return gg.grouped_gemm(x, W, SIZES, name=name)


def scoped(x, name=None):
    with jax.named_scope("model"), jax.named_scope("layer_3"):
        return gemm(x, name)


@pytest.mark.parametrize(
    ("fn", "want"),
    [
        (gemm, GEMM),
        (scoped, f"model/layer_3/{GEMM}"),
        (lambda x: scoped(x, "experts"), "experts"),
        (jax.checkpoint(scoped), f"model/layer_3/{GEMM}"),
    ],
)
def test_call_site_of_a_call(fn, want):
    assert sites(fn, X) == [want]


def test_call_site_is_the_same_under_grad_and_in_every_batch():
    def loss(x):
        return scoped(x).sum()

    assert set(sites(jax.value_and_grad(loss), X)) == {f"model/layer_3/{GEMM}"}
    assert sites(scoped, X[:4]) == [f"model/layer_3/{GEMM}"]


def test_call_site_of_other_weights_is_another():
    def two(x):
        return gemm(x) @ X.T @ gg.grouped_gemm(X, W[:, :, :2], SIZES)

    assert sites(two, X) == [GEMM, "grouped_gemm[2x4x2 float32]"]


def test_call_site_of_an_mlp_holds_scope_and_part():
    def layer(x):
        with jax.named_scope("layer_3"):
            return gg.grouped_mlp(x, jnp.ones((2, 4, 6)), jnp.ones((2, 3, 4)), SIZES)

    mlp = "layer_3/grouped_mlp[2x4x6 float32]"
    assert sites(layer, X) == [f"{mlp}.gate_up", f"{mlp}.down"]


def test_call_site_puts_no_path_and_no_pointer_into_the_program():
    """Traced at two places, the program is the same."""
    first = jax.jit(scoped).lower(X).as_text()
    second = jax.jit(lambda x: scoped(x)).lower(X).as_text()
    assert first == second.replace("jit__lambda", "jit_scoped")
    assert __file__ not in first


def test_call_site_names_are_strings():
    for call in (
        gg.grouped_gemm,
        lambda *a, **kw: gg.grouped_mlp(*a[:2], W, a[2], **kw),
    ):
        with pytest.raises(TypeError, match=r"name must be a string or None; got 5\."):
            call(X, W, SIZES, name=5)
