"""Graphs of attention whose heads are slices of one tensor."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tests.byoc.attention.nvidia_attention_cases import causal, repeated_heads

op, nn = relax.op, relax.op.nn


def _heads(emit: Any, x: Any, batch: int, count: int) -> Any:
    width = int(x.ty.shape[1]) // count
    parts = emit(op.reshape(x, (batch, int(x.ty.shape[0]) // batch, count, width)))
    return emit(op.permute_dims(parts, [0, 2, 1, 3]))


def mask_of(kind: str, s: int) -> Any:
    """The additive mask in float32: hidden after the diagonal, or each fourth key."""
    if kind == "causal":
        return causal(s, s)
    columns = np.where(np.arange(s) % 4 == 1, -np.inf, 0.0).astype("float32")
    return np.broadcast_to(columns, (s, s)).copy()


def attention_graph(
    dtype: str, b: int, h: int, kv: int, s: int, d: int, kind: str
) -> Callable[..., Any]:
    """Emits attention of heads that are slices of one tensor of halves."""

    def build(emit: Any, x: Any) -> Any:
        ends = [0, h * d, (h + kv) * d, (h + 2 * kv) * d]
        q, k, v = (_heads(emit, emit(op.strided_slice(x, [1], [i], [j])), b, (j - i) // d)
                   for i, j in itertools.pairwise(ends))  # fmt: skip
        if kv != h:
            k, v = (repeated_heads(emit, t, h // kv) for t in (k, v))
        q, k, v = (emit(op.astype(t, "float32")) for t in (q, k, v))
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
        scores = emit(op.multiply(scores, relax.const(d**-0.5, "float32")))
        if kind:
            scores = emit(op.add(scores, relax.const(mask_of(kind, s).reshape(1, 1, s, s))))
        out = emit(op.astype(emit(op.matmul(emit(nn.softmax(scores)), v)), dtype))
        return emit(op.reshape(emit(op.permute_dims(out, [0, 2, 1, 3])), (b * s, h * d)))

    return build
