"""A Mixtral of four bits in numpy: random weights as MLC-LLM stores them, and its outputs.

The outputs are computed in float32, with the weights that words and scales stand for. Source of the
model: Jiang et al., Mixtral of Experts, 2024.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.decoders.group_quantized import GROUP, WORD, dequantized

Array = np.ndarray[Any, Any]
EPSILON = 1e-5


@dataclass(frozen=True)
class Sizes:
    """The sizes of a Mixtral."""

    hidden: int
    inner: int
    layers: int
    vocabulary: int
    heads: int
    pairs: int
    head: int
    experts: int
    chosen: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Sizes:
        """Return the sizes of a configuration of MLC-LLM."""
        return cls(*(config[key] for key in (
            "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size",
            "num_attention_heads", "num_key_value_heads", "head_dim", "num_local_experts",
            "num_experts_per_tok")))  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """A weight of 4 bits in groups of 32 along its last axis, with scales of float16."""

    words: Array
    scale: Array

    def __getitem__(self, expert: int) -> Packed:
        return Packed(self.words[expert], self.scale[expert])

    @property
    def values(self) -> Array:
        """The weight in float32."""
        return dequantized(self.words, self.scale.astype("float32"))


Weights = Mapping[str, Any]


def random_weights(sizes: Sizes, seed: int) -> dict[str, Packed | Array]:
    """Return weights by name, in the order of the parameters of MLC-LLM's module."""
    rng = np.random.default_rng(seed)

    def packed(*shape: int) -> Packed:
        *outer, inner = shape
        words = rng.integers(0, 2**32, (*outer, inner // WORD), dtype="uint32")
        # Values of a group spread by about 4.6 scales: a product then keeps the size of its input.
        scale = rng.uniform(0.5, 1.5, (*outer, inner // GROUP)) / (4.6 * inner**0.5)
        return Packed(words, scale.astype("float16"))

    def norm() -> Array:
        return (1 + 0.1 * rng.standard_normal(sizes.hidden)).astype("float16")

    hidden, inner, columns = sizes.hidden, sizes.inner, sizes.heads * sizes.head
    weights: dict[str, Packed | Array] = {"embedding": packed(sizes.vocabulary, hidden)}
    for layer in range(sizes.layers):
        router = rng.standard_normal((sizes.experts, hidden)) / hidden**0.5
        weights |= {
            f"qkv{layer}": packed(columns + 2 * sizes.pairs * sizes.head, hidden),
            f"out{layer}": packed(hidden, columns),
            f"router{layer}": router.astype("float16"),
            f"gate_up{layer}": packed(sizes.experts, 2 * inner, hidden),
            f"down{layer}": packed(sizes.experts, hidden, inner),
            f"norm{layer}": norm(),
            f"second_norm{layer}": norm(),
        }
    return {**weights, "norm": norm(), "head": packed(sizes.vocabulary, hidden)}


def parameters(weights: Weights) -> list[Array]:
    """Return the arrays that MLC-LLM's module takes."""
    arrays: list[Array] = []
    for weight in weights.values():
        arrays += [weight.words, weight.scale] if isinstance(weight, Packed) else [weight]
    return arrays


@dataclass(frozen=True)
class Exact:
    """Outputs in float32.

    Attributes:
        logits: Those of each position, float32[n, vocabulary].
        margin: By how much the last chosen expert is better than the next one, at least.
    """

    logits: Array
    margin: float


def exact(sizes: Sizes, weights: Weights, ids: Array) -> Exact:
    """Return the outputs after each of the tokens, int32[n]."""
    x, margins = weights["embedding"].values[ids], []
    for layer in range(sizes.layers):
        x = x + _attention(sizes, weights, layer, _rms_norm(x, weights[f"norm{layer}"]))
        rows = _rms_norm(x, weights[f"second_norm{layer}"])
        scores = rows @ weights[f"router{layer}"].astype("float32").T
        best = np.sort(scores)[:, ::-1]
        margins.append((best[:, sizes.chosen - 1] - best[:, sizes.chosen]).min())
        x = x + _experts(sizes, weights, layer, rows, scores)
    logits = _rms_norm(x, weights["norm"]) @ weights["head"].values.T
    return Exact(logits, float(min(margins)))


def _rms_norm(x: Array, weight: Array) -> Array:
    squares = (x * x).mean(-1, keepdims=True, dtype="float32")
    return np.asarray(x / np.sqrt(squares + np.float32(EPSILON)) * weight.astype("float32"))


def _rotated(x: Array) -> Array:
    """The rotary embedding of float32[n, heads, size]; halves of a head are the two parts."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] / 10000 ** (np.arange(half) / half)
    cosine, sine = np.cos(angles).astype("float32"), np.sin(angles).astype("float32")
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def _attention(sizes: Sizes, weights: Weights, layer: int, rows: Array) -> Array:
    """Causal attention; heads that follow each other share keys and values."""
    n, (heads, pairs) = len(rows), (sizes.heads, sizes.pairs)
    every = (rows @ weights[f"qkv{layer}"].values.T).reshape(n, heads + 2 * pairs, sizes.head)
    queries, keys = _rotated(every[:, :heads]), _rotated(every[:, heads : heads + pairs])
    keys, values = (np.repeat(a, heads // pairs, 1) for a in (keys, every[:, heads + pairs :]))
    scores = np.einsum("ihd,jhd->hij", queries, keys) / np.float32(sizes.head**0.5)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, np.float32(-np.inf))
    mixed = np.einsum("hij,jhd->ihd", _softmax(scores), values).reshape(n, -1)
    return np.asarray(mixed @ weights[f"out{layer}"].values.T)


def _experts(sizes: Sizes, weights: Weights, layer: int, rows: Array, scores: Array) -> Array:
    result = np.zeros_like(rows)
    for expert, tokens, shares in _routes(scores, sizes.chosen):
        both = rows[tokens] @ weights[f"gate_up{layer}"][expert].values.T
        gate, up = both[:, : sizes.inner], both[:, sizes.inner :]
        inner = gate / (1 + np.exp(-gate)) * up
        result[tokens] += shares[:, None] * (inner @ weights[f"down{layer}"][expert].values.T)
    return result


def _routes(scores: Array, chosen: int) -> Iterator[tuple[int, Array, Array]]:
    """Yield an expert, the tokens that choose it, and their shares of it."""
    best = np.argsort(-scores)[:, :chosen]
    shares = _softmax(np.take_along_axis(scores, best, 1))
    for expert in np.unique(best):
        tokens, place = np.nonzero(best == expert)
        yield int(expert), tokens, shares[tokens, place]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
