"""Graphs of attention as models have it, with a reference in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ...layout import nets
from ...models.weights import Array

op, nn = relax.op, relax.op.nn
INF = float("inf")


@dataclass(frozen=True)
class Attention:
    """Heads of ``rows`` queries and ``keys`` keys over ``depth`` channels.

    Attributes:
        terms: The shapes of tensors that are added to the scores; the last two axes are rows and
            keys.
        value: The channels of a value.
        merged: Batch and heads are one axis around the scores, as torch exports it.
        causal: A constant mask hides later keys, by the term ``hidden``.
    """

    batch: int = 1
    heads: int = 2
    rows: int = 9
    keys: int = 13
    depth: int = 32
    value: int = 32
    terms: tuple[tuple[int, ...], ...] = ()
    merged: bool = False
    causal: bool = False
    hidden: float = -INF
    scaled: bool = True

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        b, h = self.batch, self.heads
        return ((b, self.rows, h * self.depth), (b, self.keys, h * self.depth),
                (b, self.keys, h * self.value), *self.terms)  # fmt: skip

    @property
    def mask(self) -> Array:
        """Row i sees the keys up to i, and none of the others."""
        later = np.arange(self.keys)[None] > np.arange(self.rows)[:, None]
        return np.where(later, self.hidden, 0.0).astype("float32")

    def build(self, emit: Any, rng: Any, q: Any, k: Any, v: Any, *terms: Any) -> Any:
        b, h = self.batch, self.heads

        def split(x: Any, rows: int, depth: int) -> Any:
            x = emit(op.reshape(x, (b, rows, h, depth)))
            return emit(op.permute_dims(x, (0, 2, 1, 3)))

        def joined(x: Any) -> Any:
            return emit(op.reshape(x, (b * h, *list(x.ty.shape)[2:]))) if self.merged else x

        q, v = split(q, self.rows, self.depth), split(v, self.keys, self.value)
        k = emit(op.permute_dims(split(k, self.keys, self.depth), (0, 1, 3, 2)))
        if self.scaled:  # both operands, then the scores
            q = emit(op.multiply(q, relax.const(0.5)))
            k = emit(op.divide(k, relax.const(1.5)))
        scores = emit(op.matmul(joined(q), joined(k)))
        if self.scaled:
            scores = emit(op.multiply(scores, relax.const(np.asarray([0.75], "float32"))))
        if self.merged:
            scores = emit(op.reshape(scores, (b, h, self.rows, self.keys)))
        for term in terms:
            scores = emit(op.add(scores, term))
        if self.causal:
            scores = emit(op.add(relax.const(self.mask), scores))
        out = emit(op.matmul(joined(emit(nn.softmax(scores, -1))), joined(v)))
        if self.merged:
            out = emit(op.reshape(out, (b, h, self.rows, self.value)))
        out = emit(op.permute_dims(out, (0, 2, 1, 3)))
        return emit(op.reshape(out, (b, self.rows, h * self.value)))

    def module(self) -> Any:
        return nets.net(self.build, *self.shapes, legal=False)

    def inputs(self, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(s).astype("float32") for s in self.shapes]

    def reference(self, *inputs: Array, dtype: str = "float64") -> Array:
        """The result with all operators in this dtype."""
        q, k, v, *terms = (x.astype(dtype) for x in inputs)
        b, h = self.batch, self.heads

        def split(x: Array, rows: int, depth: int) -> Array:
            return x.reshape(b, rows, h, depth).transpose(0, 2, 1, 3)

        factor = np.asarray(0.5 * 0.75 / 1.5 if self.scaled else 1.0, dtype)
        keys = split(k, self.keys, self.depth).transpose(0, 1, 3, 2)
        scores = split(q, self.rows, self.depth) @ keys * factor
        for term in (*terms, *([self.mask.astype(dtype)] if self.causal else [])):
            scores = scores + term
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(-1, keepdims=True))
        out = weights / weights.sum(-1, keepdims=True) @ split(v, self.keys, self.value)
        return np.asarray(out.transpose(0, 2, 1, 3).reshape(b, self.rows, h * self.value))


CASES = {
    "one query": Attention(rows=1, keys=77, depth=64, value=64),
    "one query, odd channels": Attention(rows=1, keys=5, depth=13, value=7),
    "few queries": Attention(rows=3, keys=50, depth=40, value=40),
    "one key": Attention(rows=8, keys=1),
    "channels 80": Attention(rows=20, keys=33, depth=80, value=80),
    "channels 128, values of 96": Attention(rows=31, keys=64, depth=128, value=96),
    "several blocks of rows": Attention(heads=1, rows=210, keys=1900, depth=8, value=24),
    "more keys than the first cache has room for": Attention(rows=6, keys=331, depth=16, value=70),
    "batch, mask of padding": Attention(batch=3, terms=((3, 1, 1, 13),)),
    "batch and heads as one axis": Attention(batch=2, heads=3, merged=True),
    "merged, masks": Attention(batch=2, heads=3, merged=True, terms=((3, 9, 13), (2, 1, 1, 13))),
    "bias of each head, one for all keys": Attention(heads=4, terms=((1, 4, 9, 13), (9, 1))),
    "causal": Attention(rows=13, keys=13, causal=True),
    "causal, merged, bias": Attention(rows=35, keys=35, causal=True, merged=True,
                                      terms=((2, 1, 35),)),
    "causal, several blocks of rows": Attention(rows=100, keys=100, causal=True),
    "not scaled": Attention(rows=49, keys=49, scaled=False),
}  # fmt: skip
