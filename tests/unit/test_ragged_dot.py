# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`gg.ragged_dot` and `ragged_dot_general` conform to jax.lax's published behaviour."""

import functools
import inspect
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.messages import raises_text

import graphsafe_gg as gg

SIZES = np.array([3, 0, 5, 2], np.int32)
Numbers = jax.lax.RaggedDotDimensionNumbers


def normal(*shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def of_lax(*operands, general=False, **options):
    """lax's result by a CPU, where it multiplies float32 in float32."""
    call = jax.lax.ragged_dot_general if general else jax.lax.ragged_dot
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.device_get(call(*operands, **options))


def both(*operands, general=False, **options):
    ours = (gg.ragged_dot_general if general else gg.ragged_dot)(*operands, **options)
    return ours, of_lax(*operands, general=general, **options)


def assert_conforms(ours, theirs, tolerance=1e-5):
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    got, wanted = (np.asarray(x, np.float32) for x in (ours, theirs))
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)


@pytest.mark.parametrize("name", ["ragged_dot", "ragged_dot_general"])
def test_ragged_dot_has_the_signature_of_lax(name):
    """Names, order, kinds and defaults; out_sharding came with a later jax."""
    ours = inspect.signature(getattr(gg, name)).parameters.values()
    theirs = inspect.signature(getattr(jax.lax, name)).parameters
    for parameter in ours:
        if parameter.name == "out_sharding" and parameter.name not in theirs:
            continue
        other = theirs[parameter.name]
        assert (parameter.kind, parameter.default) == (other.kind, other.default)
    names = [parameter.name for parameter in ours]
    assert names[: len(theirs)] == list(theirs)


TYPES = ["bfloat16", "float16", "float32"]


@pytest.mark.parametrize("lhs_type", TYPES)
@pytest.mark.parametrize("rhs_type", TYPES)
@pytest.mark.parametrize("preferred", [None, *TYPES])
def test_ragged_dot_promotes_as_lax(device, lhs_type, rhs_type, preferred):
    lhs, rhs = normal(12, 8, dtype=lhs_type), normal(4, 8, 6, dtype=rhs_type, seed=1)
    ours, theirs = both(lhs, rhs, SIZES, preferred_element_type=preferred)
    assert_conforms(ours, theirs, 0.05)


@pytest.mark.parametrize("rhs_type", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16])
@pytest.mark.parametrize("preferred", [None, jnp.float8_e4m3fn, jnp.float32])
def test_ragged_dot_of_float8_multiplies_in_float32(device, rhs_type, preferred):
    """Rounded once, to the type that lax gives."""
    lhs = normal(12, 8, dtype=jnp.float8_e4m3fn)
    rhs = normal(4, 8, 6, dtype=rhs_type, seed=1)
    ours, theirs = both(lhs, rhs, SIZES, preferred_element_type=preferred)
    wide = of_lax(lhs.astype(np.float32), rhs.astype(np.float32), SIZES)
    assert ours.dtype == theirs.dtype
    assert_conforms(ours, wide.astype(theirs.dtype), 1e-5)
    gradient = jax.grad(lambda lhs: jnp.sum(gg.ragged_dot(lhs, rhs, SIZES)))(lhs)
    assert gradient.dtype == lhs.dtype


@pytest.mark.parametrize(
    "sizes", [[3, 0, 5, 2], [0, 0, 0, 0], [12, 0, 0, 0], [1, 1, 1, 1]]
)
def test_ragged_dot_rows_past_the_sum_are_zero(device, sizes):
    ours, theirs = both(normal(12, 8), normal(4, 8, 6), np.array(sizes, np.int32))
    assert_conforms(ours, theirs)
    np.testing.assert_array_equal(np.asarray(ours)[sum(sizes) :], 0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32])
def test_ragged_dot_takes_any_integer_sizes(device, dtype):
    assert_conforms(*both(normal(12, 8), normal(4, 8, 6), SIZES.astype(dtype)))


def test_ragged_dot_takes_positional_arguments_as_lax(device):
    lhs, rhs = normal(12, 8, dtype="bfloat16"), normal(4, 8, 6, dtype="bfloat16")
    ours = gg.ragged_dot(lhs, rhs, SIZES, jax.lax.Precision.HIGHEST, np.float32)
    theirs = of_lax(lhs, rhs, SIZES, jax.lax.Precision.HIGHEST, np.float32)
    assert_conforms(ours, theirs)


def test_ragged_dot_gradients_and_tangents_are_those_of_lax(device):
    lhs, rhs = normal(12, 8), normal(4, 8, 6)

    def loss(dot, lhs, rhs):
        return jnp.sum(jnp.sin(dot(lhs, rhs, SIZES)))

    for transform in (
        lambda f: jax.grad(f, (0, 1)),
        lambda f: lambda *a: jax.jvp(f, a, a),
    ):
        ours = transform(functools.partial(loss, gg.ragged_dot))(lhs, rhs)
        with jax.default_device(jax.devices("cpu")[0]):
            theirs = transform(functools.partial(loss, jax.lax.ragged_dot))(lhs, rhs)
        for got, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("axes", list(itertools.product((0, None), repeat=3))[:-1])
def test_ragged_dot_under_vmap_is_a_loop_of_lax(device, axes):
    """lax itself maps all three operands or none."""
    arrays = (normal(2, 12, 8), normal(2, 4, 8, 6), np.stack([SIZES, SIZES[::-1]]))
    operands = [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]
    pairs = list(zip(operands, axes, strict=True))
    loop = [of_lax(*(a[b] if axis == 0 else a for a, axis in pairs)) for b in range(2)]
    assert_conforms(jax.vmap(gg.ragged_dot, axes)(*operands), np.stack(loop))


NONCONTRACTING = {
    "basic": ((10, 8), (4, 8, 6), (((1,), (1,)), ((), ())), 0, 0),
    "weights last": ((10, 8), (4, 6, 8), (((1,), (2,)), ((), ())), 0, 0),
    "transposed rows": ((8, 10), (4, 8, 6), (((0,), (1,)), ((), ())), 1, 0),
    "groups in the middle": ((10, 8), (8, 4, 6), (((1,), (0,)), ((), ())), 0, 1),
    "batch": ((2, 10, 8), (4, 2, 8, 6), (((2,), (2,)), ((0,), (1,))), 1, 0),
    "two contractions": ((10, 2, 4), (4, 4, 6, 2), (((1, 2), (3, 1)), ((), ())), 0, 0),
    "two columns": ((10, 8), (4, 8, 2, 3), (((1,), (1,)), ((), ())), 0, 0),
    "outer rows": ((3, 10, 8), (4, 8, 6), (((2,), (1,)), ((), ())), 1, 0),
    "inner rows": ((10, 3, 8), (4, 8, 6), (((2,), (1,)), ((), ())), 0, 0),
    "all": (
        (2, 3, 10, 5, 8),
        (4, 2, 8, 6),
        (((4,), (2,)), ((0,), (1,))),
        2,
        0,
    ),
    "no columns beside": ((10, 8), (4, 8), (((1,), (1,)), ((), ())), 0, 0),
}


def prefix_of(case, lhs_shape, numbers, ragged):
    """The leading axes that group_sizes may have."""
    contracting, batch = numbers
    others = [i for i in range(len(lhs_shape)) if i not in (*contracting[0], *batch[0])]
    among = contracting[0] if ragged in contracting[0] else others
    outer = list(among)[: list(among).index(ragged)]
    return [lhs_shape[i] for i in (*batch[0], *outer)]


def varied_sizes(prefix, seed=3):
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(8, [0.25] * 4, size=prefix or None)
    return sizes.astype(np.int32)


@pytest.mark.parametrize("has_prefix", [False, True])
@pytest.mark.parametrize("case", NONCONTRACTING)
def test_ragged_dot_general_noncontracting(device, case, has_prefix):
    lhs_shape, rhs_shape, numbers, ragged, group = NONCONTRACTING[case]
    prefix = prefix_of(case, lhs_shape, numbers, ragged) if has_prefix else []
    dimension_numbers = Numbers(numbers, [ragged], [group])
    assert_conforms(
        *both(
            normal(*lhs_shape),
            normal(*rhs_shape, seed=1),
            varied_sizes(prefix),
            dimension_numbers,
            general=True,
        )
    )


CONTRACTING = {
    "basic": ((10, 8), (10, 6), (((0,), (0,)), ((), ())), 0),
    "rows last": ((8, 10), (6, 10), (((1,), (1,)), ((), ())), 1),
    "batch": ((2, 10, 8), (2, 10, 6), (((1,), (1,)), ((0,), (0,))), 1),
    "outer": ((3, 10, 8), (3, 10, 6), (((0, 1), (0, 1)), ((), ())), 1),
    "inner": ((10, 3, 8), (3, 10, 6), (((0, 1), (1, 0)), ((), ())), 0),
    "two free": ((10, 8, 2), (10, 6, 3), (((0,), (0,)), ((), ())), 0),
    "all": (
        (2, 3, 10, 5, 8),
        (2, 3, 5, 10, 6),
        (((1, 2, 3), (1, 3, 2)), ((0,), (0,))),
        2,
    ),
}


@pytest.mark.parametrize("has_prefix", [False, True])
@pytest.mark.parametrize("case", CONTRACTING)
def test_ragged_dot_general_contracting(device, case, has_prefix):
    lhs_shape, rhs_shape, numbers, ragged = CONTRACTING[case]
    prefix = prefix_of(case, lhs_shape, numbers, ragged) if has_prefix else []
    assert_conforms(
        *both(
            normal(*lhs_shape),
            normal(*rhs_shape, seed=1),
            varied_sizes(prefix),
            Numbers(numbers, [ragged], []),
            general=True,
        )
    )


def test_ragged_dot_general_batch_is_that_of_lax(device):
    numbers = Numbers((((2,), (1,)), ((0,), (0,))), [0], [])
    operands = normal(10, 3, 8), normal(10, 8, 6), SIZES, numbers
    assert_conforms(*both(*operands, general=True))


def test_ragged_dot_general_derivatives_of_the_contracting_product(device):
    numbers = Numbers((((0,), (0,)), ((), ())), [0], [])
    lhs, dout = normal(10, 8), normal(10, 6)

    def loss(dot, lhs, dout):
        return jnp.sum(jnp.sin(dot(lhs, dout, SIZES, numbers)))

    def masked(lhs, dout, sizes, numbers):
        """lax has no derivative of this one."""
        ends = np.cumsum(sizes)[:, None]
        row = np.arange(10)[None]
        mask = ((row >= ends - sizes[:, None]) & (row < ends)).astype(np.float32)
        return jnp.einsum("gr,rm,rn->gmn", mask, lhs, dout, precision="highest")

    ours, theirs = (
        jax.grad(functools.partial(loss, dot), (0, 1))(lhs, dout)
        for dot in (gg.ragged_dot_general, masked)
    )
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)


def test_ragged_dot_basic_is_one_plain_call():
    """No gather, no transposition: the drop-in costs nothing."""
    text = jax.jit(gg.ragged_dot).lower(normal(10, 8), normal(4, 8, 6), SIZES).as_text()
    operations = re.findall(r"^ *%\d+ = (\S+)", text, re.M)
    assert operations == ["stablehlo.custom_call"]


def test_ragged_dot_group_offset_is_a_part_of_the_whole(device):
    """What lax documents: rhs has the groups from this one on."""
    lhs, rhs = normal(12, 8), normal(4, 8, 6)
    whole = np.asarray(gg.ragged_dot(lhs, rhs, SIZES)).copy()
    for offset in (1, jnp.int32(1), jnp.array([1])):
        part = gg.ragged_dot(lhs, rhs[1:3], SIZES, group_offset=offset)
        np.testing.assert_array_equal(part[3:8], whole[3:8])
        np.testing.assert_array_equal(part[:3], 0)
        np.testing.assert_array_equal(part[8:], 0)


LAX_ERRORS = {
    "float sizes": (lambda: (normal(4, 3), normal(2, 3, 5), np.ones(2, np.float32)),),
    "contraction": (lambda: (normal(4, 3), normal(2, 4, 5), np.array([1, 1])),),
    "groups": (lambda: (normal(4, 3), normal(3, 3, 5), np.array([1, 1])),),
    "scalar sizes": (lambda: (normal(4, 3), normal(2, 3, 5), np.int32(2)),),
}


@pytest.mark.parametrize("case", LAX_ERRORS)
def test_ragged_dot_refuses_what_lax_refuses(case):
    """With lax's own text."""
    (operands,) = LAX_ERRORS[case]
    with pytest.raises(TypeError) as theirs:
        jax.lax.ragged_dot(*operands())
    with raises_text(TypeError, str(theirs.value)):
        gg.ragged_dot(*operands())


def test_ragged_dot_bad_sizes_are_errors(device):
    """Where lax cuts or counts from a negative row."""
    for sizes in ([-1, 2, 3, 4], [5, 5, 5, 0]):

        def call(sizes=sizes):
            lhs, rhs = normal(12, 8), normal(4, 8, 6)
            jax.block_until_ready(gg.ragged_dot(lhs, rhs, np.array(sizes)))
            gg.check()

        with pytest.raises((ValueError, jax.errors.JaxRuntimeError)):
            call()


def test_ragged_dot_what_is_not_built():
    lhs, rhs = np.ones((4, 3), np.int8), np.ones((2, 3, 5), np.int8)
    sizes = np.array([1, 1], np.int32)
    text = (
        "ragged_dot: lhs or rhs must be floating-point; got int8 and int8. Use "
        "jax.lax.ragged_dot, or cast them."
    )
    with raises_text(NotImplementedError, text):
        gg.ragged_dot(lhs, rhs, sizes)
    with raises_text(NotImplementedError, text.replace("int8 and", "complex64 and")):
        gg.ragged_dot(lhs.astype(np.complex64), rhs, sizes)
    with pytest.raises(NotImplementedError, match="out_sharding must be None"):
        gg.ragged_dot(
            normal(4, 3),
            normal(2, 3, 5),
            sizes,
            out_sharding=jax.sharding.PartitionSpec(),
        )
    numbers = Numbers((((0,), (0,)), ((), ())), [0], [])
    text = (
        "ragged_dot: group_offset must come with a ragged noncontracting dimension; "
        "got a ragged contracting one. Slice the result."
    )
    with raises_text(NotImplementedError, text):
        gg.ragged_dot_general(
            normal(4, 3), normal(4, 5), sizes, numbers, group_offset=0
        )
