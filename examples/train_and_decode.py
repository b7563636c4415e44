# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small MoE transformer on this project's design pages, on a CPU if need be.

    python examples/train_and_decode.py

The loss falls, and its curve is printed. The model then decodes greedily in each mode,
with equal tokens; its routing is recorded, and `graphsafe-gg decode` replays it.
"""

import argparse
import functools
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from moe_transformer import Config, decode_step, init_cache, init_params, logits_of

import graphsafe_gg as gg
from graphsafe_gg.decode.cli import main as graphsafe_gg_command

MODES = ("sync", "async", "device", "auto")
PAGES = pathlib.Path(__file__).resolve().parents[1] / "design"


def load_text() -> tuple[np.ndarray, str]:
    """The design pages as numbers of letters, and the letters."""
    text = "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    letters = "".join(sorted(set(text)))
    return np.array([letters.index(letter) for letter in text], np.int32), letters


def train(config: Config, data: np.ndarray, num_steps: int, batch: int = 16):
    """Adam on random windows of the text: the parameters, and the loss of each step."""

    def loss_of(params, windows):
        logits = logits_of(params, windows[:, :-1], config)
        log_probabilities = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_probabilities, windows[:, 1:, None], axis=-1)
        return -jnp.mean(chosen)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, windows, count):
        params, mean, square = state
        loss, gradient = jax.value_and_grad(loss_of)(params, windows)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradient)
        rate = 5e-3 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        params = jax.tree.map(
            lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-8), params, mean, square
        )
        return (params, mean, square), loss

    params = init_params(config, jax.random.key(0))
    state = (params, *(jax.tree.map(jnp.zeros_like, params) for _ in range(2)))
    rng, losses = np.random.default_rng(0), []
    for count in range(1, num_steps + 1):
        starts = rng.integers(0, len(data) - config.context, batch)
        windows = data[starts[:, None] + np.arange(config.context + 1)[None, :]]
        state, loss = step(state, windows, jnp.float32(count))
        losses.append(float(loss))
    return state[0], losses


def decode(params, prompts: np.ndarray, config: Config, mode: str) -> np.ndarray:
    """(b, context) tokens: the prompts, then the likeliest token, again and again."""
    step = jax.jit(functools.partial(decode_step, config=config, mode=mode))
    cache, tokens = init_cache(config, len(prompts)), list(prompts.T)
    for position in range(config.context - 1):
        cache, logits = step(params, cache, tokens[position], position)
        if position + 1 == len(tokens):
            tokens.append(np.argmax(logits, axis=-1).astype(np.int32))
    return np.stack(tokens, axis=1)


def curve(losses: list[float], width: int = 60, height: int = 12) -> str:
    """The losses as a plot of letters, each column the mean of its steps."""
    columns = [
        np.mean(part) for part in np.array_split(losses, min(width, len(losses)))
    ]
    low, high = min(columns), max(columns)
    rows = [round((height - 1) * (c - low) / max(high - low, 1e-9)) for c in columns]
    lines = []
    for row in reversed(range(height)):
        level = low + (high - low) * row / (height - 1)
        marks = "".join("*" if r == row else " " for r in rows)
        lines.append(f"{level:7.3f} | {marks}".rstrip())
    return "\n".join(
        [*lines, f"{'loss':>7} +-{'-' * len(columns)} {len(losses)} steps"]
    )


def run(config: Config, num_steps: int, model: str, sizes_path: str) -> list[float]:
    """Everything in turn; returns the losses, raises if the modes disagree."""
    data, letters = load_text()
    params, losses = train(config, data, num_steps)
    print(curve(losses))
    prompts = data[np.arange(0, 4000, 1000)[:, None] + np.arange(16)[None, :]]
    decoded = {mode: decode(params, prompts, config, mode) for mode in MODES}
    for mode, tokens in decoded.items():
        if not np.array_equal(tokens, decoded["sync"]):
            raise SystemExit(f"mode {mode} decoded other tokens than mode sync")
    print(f"\nequal tokens in {', '.join(MODES)}; the first:")
    print("".join(letters[token] for token in decoded["sync"][0]))
    layers = config.num_layers
    with gg.record_sizes(sizes_path, top_k=config.top_k, num_layers=layers):
        decode(params, prompts, config, "device")
    print(f"\nreplay of {sizes_path} on the shapes of {model}:", flush=True)
    replay = ["--sizes", sizes_path, "--model", model, "--layers", "1", "--steps", "3"]
    status = graphsafe_gg_command(["decode", *replay])
    if status:
        raise SystemExit(status)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400, help="of training (400)")
    parser.add_argument("--sizes", help="where to record the routing (a new folder)")
    options = parser.parse_args()
    sizes = options.sizes or str(pathlib.Path(tempfile.mkdtemp()) / "sizes.npz")
    config = Config(vocab=len(load_text()[1]))
    # The public model whose layers have as many experts, and as many for each token.
    run(config, options.steps, "Granite-3-1B-A400M", sizes)


if __name__ == "__main__":
    main()
