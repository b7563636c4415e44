# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`record_sizes`: what a running model records, and its replay by the command."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.decode_run import TINY, install_tiny_model
from support.messages import raises_text

import graphsafe_gg as gg
from graphsafe_gg.decode.cli import main
from graphsafe_gg.sizes_file import load_group_sizes

G, TOP_K, H, F, LAYERS = TINY.num_experts, TINY.top_k, 8, 4, 2


def random_model(num_steps=3, num_tokens=5):
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    layers = [(normal(H, G), normal(G, H, 2 * F), normal(G, F, H)) for _ in range(2)]
    return normal(num_steps, num_tokens, H), layers


def forward(tokens, layers):
    """The model, and the expert numbers of each layer."""
    choices = []
    for router, *experts in layers:
        logits = tokens @ router
        choices.append(gg.route(logits, TOP_K)[1])
        tokens = tokens + gg.moe_mlp(tokens, logits, *experts, top_k=TOP_K)
    return tokens, choices


def counts(expert_idx):
    return np.bincount(np.asarray(expert_idx).ravel(), minlength=G)


def test_record_sizes_of_a_jitted_model(tmp_path):
    steps, layers = random_model()
    model, path = jax.jit(forward), tmp_path / "sizes.npz"
    expected = [[counts(idx) for idx in model(step, layers)[1]] for step in steps]
    with gg.record_sizes(path, top_k=TOP_K, num_layers=LAYERS, model="tiny"):
        for step in steps:  # the model was compiled before: it is traced anew
            model(step, layers)
    recorded = load_group_sizes(path)
    np.testing.assert_array_equal(recorded.group_sizes, expected)
    assert (recorded.top_k, recorded.model) == (TOP_K, "tiny")


def test_record_sizes_under_scan_keeps_steps_and_layers_in_order(tmp_path):
    steps, layers = random_model(num_steps=4)
    path = tmp_path / "sizes.npz"
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)

    def step(_, tokens):
        def one_layer(tokens, layer):
            tokens, (expert_idx,) = forward(tokens, [layer])
            return tokens, expert_idx

        return None, jax.lax.scan(one_layer, tokens, stacked)[1]

    with gg.record_sizes(path, top_k=TOP_K, num_layers=LAYERS):
        _, choices = jax.jit(lambda steps: jax.lax.scan(step, None, steps))(steps)
    expected = [[counts(idx) for idx in of_step] for of_step in choices]
    np.testing.assert_array_equal(load_group_sizes(path).group_sizes, expected)


def test_record_sizes_of_every_layer_function(tmp_path):
    (tokens, *_), ((_, *experts), _) = random_model()
    sizes, path = np.array([2, 0, 1, 0, 1, 1], np.int32), tmp_path / "sizes.npz"
    expert_idx = np.repeat(np.arange(G), sizes)[:, None]
    with gg.record_sizes(path, top_k=1, num_layers=3):
        gg.grouped_mlp(tokens, *experts, sizes)
        gg.grouped_layernorm_mlp(tokens, jnp.ones(H), *experts, sizes, mode="async")
        gg.routed_mlp(tokens, expert_idx, jnp.ones((5, 1)), *experts)
    recorded = load_group_sizes(path).group_sizes
    np.testing.assert_array_equal(recorded, [[sizes] * 3])


def test_record_sizes_under_grad_records_each_layer_once(tmp_path):
    (tokens, *_), layers = random_model()
    path = tmp_path / "sizes.npz"
    loss = jax.jit(jax.grad(lambda tokens: jnp.sum(forward(tokens, layers)[0])))
    with gg.record_sizes(path, top_k=TOP_K, num_layers=LAYERS):
        loss(tokens)
    assert load_group_sizes(path).group_sizes.shape == (1, LAYERS, G)


def test_record_sizes_under_vmap_takes_each_element_for_a_call(tmp_path):
    steps, (layer, _) = random_model()
    path = tmp_path / "sizes.npz"
    batched = jax.vmap(lambda tokens: forward(tokens, [layer])[1][0])
    with gg.record_sizes(path, top_k=TOP_K, num_layers=1):
        choices = jax.jit(batched)(steps)
    expected = [[counts(expert_idx)] for expert_idx in choices]
    np.testing.assert_array_equal(load_group_sizes(path).group_sizes, expected)


def on_two_devices(how):
    """The model as a program of two devices, and its tokens."""
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))
    (tokens, *_), layers = random_model(num_tokens=6)
    model = lambda tokens: forward(tokens, layers)[0]  # noqa: E731
    if how == "pmap":
        mapped = jax.pmap(model, devices=mesh.devices.tolist())
        return mapped, tokens.reshape(2, 3, H)
    if how == "shard_map":
        return jax.jit(
            jax.shard_map(model, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        ), tokens
    return jax.jit(model), jax.device_put(tokens, NamedSharding(mesh, P()))


@pytest.mark.parametrize("how", ["jit", "shard_map", "pmap"])
def test_record_sizes_refuses_several_devices(tmp_path, how):
    path, (model, tokens) = tmp_path / "sizes.npz", on_two_devices(how)

    def record():
        with gg.record_sizes(path, top_k=1, num_layers=1):
            model(tokens)

    text = (
        "record_sizes: the model must run on one device; got a program of several. "
        "There, return the sizes from the step and write them with "
        "graphsafe_gg.sizes_file.save_group_sizes."
    )
    with raises_text(ValueError, text):
        record()
    assert not path.exists()
    assert np.isfinite(model(tokens)).all()


def test_record_sizes_lets_other_errors_through(tmp_path):
    def record():
        with gg.record_sizes(tmp_path / "sizes.npz", top_k=1, num_layers=1):
            raise ValueError("the model's own")

    with raises_text(ValueError, "the model's own"):
        record()


def test_record_sizes_costs_nothing_outside(tmp_path):
    (tokens, *_), layers = random_model()
    program = lambda: jax.jit(forward).lower(tokens, layers).as_text()  # noqa: E731
    before = program()
    with gg.record_sizes(tmp_path / "sizes.npz", top_k=TOP_K, num_layers=LAYERS):
        forward(tokens, layers)
        assert "callback" in program()
        assert "OrderedDebug" in str(jax.make_jaxpr(forward)(tokens, layers))
    assert program() == before
    assert "callback" not in before


def test_record_sizes_is_replayed_by_the_command(tmp_path, monkeypatch, capsys):
    install_tiny_model(monkeypatch)
    steps, layers = random_model()
    sizes, out = tmp_path / "sizes.npz", tmp_path / "out.json"
    with gg.record_sizes(sizes, top_k=TOP_K, num_layers=LAYERS, model="tiny"):
        for step in steps:
            jax.jit(forward)(step, layers)
    arguments = ["--sizes", str(sizes), "--modes", "device", "--json", str(out)]
    assert main(["decode", *arguments]) == 0
    assert "recorded group sizes" in capsys.readouterr().out
    document = json.loads(out.read_text())
    assert [document[key] for key in ("layers", "tokens", "steps")] == [LAYERS, 5, 3]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_layers": 2}, r"a multiple of num_layers = 2, and not 0; got 3"),
        ({"top_k": 2}, r"multiple of top_k = 2; got 5"),
        ({"top_k": 0}, r"record_sizes: top_k must be from 1 to"),
        ({"num_layers": 0}, r"record_sizes: num_layers must be from 1 to"),
    ],
)
def test_record_sizes_errors(tmp_path, options, text):
    (tokens, *_), ((_, *experts), _) = random_model()
    sizes, path = np.array([2, 0, 1, 0, 1, 1], np.int32), tmp_path / "sizes.npz"
    call = {"top_k": 1, "num_layers": 1, **options}

    def record():
        with gg.record_sizes(path, **call):
            for _ in range(3):
                gg.grouped_mlp(tokens, *experts, sizes)

    with pytest.raises(ValueError, match=text):
        record()
    assert not path.exists()


def test_record_sizes_errors_of_what_ran(tmp_path):
    (tokens, *_), ((_, *experts), _) = random_model()

    def record(*widths):
        with gg.record_sizes(tmp_path / "sizes.npz", top_k=1, num_layers=1):
            for width in widths:
                part = [w[:width] for w in experts]
                gg.grouped_mlp(tokens, *part, np.zeros(width, np.int32))

    with pytest.raises(ValueError, match="and not 0; got 0"):
        record()
    with pytest.raises(ValueError, match="one number of experts; got 3 and 6"):
        record(6, 3)
