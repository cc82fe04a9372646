"""Graphs of attention that cuDNN's fused kernel takes whole, and their numbers in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tvm import relax

nn, op = relax.op.nn, relax.op
Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
INF = float("inf")


@dataclass(frozen=True)
class Case:
    """``build(emit, *inputs)`` of halves, and booleans where ``masks`` says so.

    Attributes:
        shapes: Of the inputs.
        build: Emits the graph.
        reference: Its result in float64 from inputs in float64.
        sets: Lines of the generated source, without names of tensors.
        dtype: The dtype of the halves.
        masks: The inputs that are booleans.
    """

    shapes: tuple[tuple[int, ...], ...]
    build: Build
    reference: Callable[..., Array]
    sets: tuple[str, ...]
    dtype: str = "float16"
    masks: tuple[int, ...] = ()

    def inputs(self) -> list[Array]:
        rng = np.random.default_rng(3)
        kind = getattr(ml_dtypes, self.dtype, self.dtype)
        arrays: list[Array] = []
        for k, shape in enumerate(self.shapes):
            numbers = rng.standard_normal(shape)
            arrays.append(numbers > 0.3 if k in self.masks else numbers.astype(kind))
        return arrays


def attended(q: Any, k: Any, v: Any, scale: Any, mask: Any = 0.0) -> Array:
    """Attention over (..., positions, elements) in float64."""
    scores = q @ np.swapaxes(k, -1, -2) * scale + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


def heads(x: Array, count: int) -> Array:
    """(batch, positions, features) by (batch, heads, positions, elements)."""
    b, s, width = x.shape
    return x.reshape(b, s, count, width // count).transpose(0, 2, 1, 3)


def merged(x: Array) -> Array:
    b, h, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, h * d)


def _wide(emit: Build, x: Any) -> Any:
    return emit(op.astype(x, "float32"))


def _split(emit: Build, x: Any, batch: int, count: int) -> Any:
    """The heads of a tensor of rows."""
    width = int(x.ty.shape[-1])
    rows = int(np.prod([int(e) for e in x.ty.shape])) // (width * batch)
    parts = emit(op.reshape(x, (batch, rows, count, width // count)))
    return emit(op.permute_dims(parts, [0, 2, 1, 3]))


def _as_torch(emit: Build, q: Any, k: Any, v: Any, mask: Any = None, scale: float = 0.25) -> Any:
    """Heads as torch exports their attention: in float32, batch and heads as one axis."""
    dtype = q.ty.dtype
    q, k, v = (_wide(emit, x) for x in (q, k, v))
    root = relax.const(scale**0.5, "float32")
    q = emit(op.multiply(q, root))
    k = emit(op.multiply(emit(op.permute_dims(k, [0, 1, 3, 2])), root))
    (b, h, s, d), t = (int(e) for e in q.ty.shape), int(k.ty.shape[-1])
    scores = emit(op.matmul(emit(op.reshape(q, (b * h, s, d))), emit(op.reshape(k, (b * h, d, t)))))
    scores = emit(op.reshape(scores, (b, h, s, t)))
    if mask is not None:
        scores = emit(op.add(scores, mask))
    weights = emit(op.reshape(emit(nn.softmax(scores)), (b * h, s, t)))
    d = int(v.ty.shape[-1])
    out = emit(op.matmul(weights, emit(op.reshape(v, (b * h, t, d)))))
    return emit(op.astype(emit(op.reshape(out, (b, h, s, d))), dtype))


def _joined(emit: Build, x: Any) -> Any:
    b, h, s, d = (int(e) for e in x.ty.shape)
    return emit(op.reshape(emit(op.permute_dims(x, [0, 2, 1, 3])), (b, s, h * d)))


def _three(emit: Build, q: Any, k: Any, v: Any) -> Any:
    return _joined(emit, _as_torch(emit, *(_split(emit, x, 2, 3) for x in (q, k, v))))


def _one_tensor(emit: Build, x: Any) -> Any:
    """Queries, keys and values side by side in one tensor."""
    parts = [emit(op.strided_slice(x, [2], [k * 48], [k * 48 + 48])) for k in range(3)]
    return _joined(emit, _as_torch(emit, *(_split(emit, p, 2, 3) for p in parts)))


def _sliced(emit: Build, x: Any, count: int = 3) -> Any:
    """A slice of the first axis for queries, keys and values each."""
    out = []
    for k in range(count):
        part = emit(op.reshape(x, (2, 7, 3, 3, 16)))
        part = emit(op.permute_dims(part, [2, 0, 3, 1, 4]))
        out.append(emit(op.squeeze(emit(op.strided_slice(part, [0], [k], [k + 1])), [0])))
    return _joined(emit, _as_torch(emit, *out))


def _in_halves(emit: Build, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))
    scores = emit(op.divide(scores, relax.const(4.0, q.ty.dtype)))
    return emit(op.matmul(emit(nn.softmax(scores)), v))


def _wide_softmax(emit: Build, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    weights = emit(
        nn.softmax(_wide(emit, emit(op.multiply(scores, relax.const(0.25, "bfloat16")))))
    )
    return emit(op.matmul(emit(op.astype(weights, "bfloat16")), v))


def causal(rows: int, keys: int, hidden: float = -INF) -> Array:
    after = np.arange(keys)[None] > np.arange(rows)[:, None] + keys - rows
    return np.where(after, np.float32(hidden), np.float32(0))


def _constant(mask: Array) -> Build:
    def build(emit: Build, q: Any, k: Any, v: Any) -> Any:
        return _as_torch(emit, q, k, v, relax.const(mask.astype("float32")))

    return build


def _windows(emit: Build, q: Any, k: Any, v: Any) -> Any:
    """As Swin: a bias by head, then a mask by window, each added in halves."""
    half = str(q.ty.dtype)
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    scores = emit(op.add(scores, relax.const(BY_HEAD.astype(half))))
    scores = emit(op.add(emit(op.reshape(scores, (2, 2, 3, 5, 9))),
                         relax.const(BY_WINDOW.astype(half))))  # fmt: skip
    return emit(op.matmul(emit(nn.softmax(emit(op.reshape(scores, (4, 3, 5, 9))))), v))


def _scaled_queries(emit: Build, q: Any, k: Any, v: Any) -> Any:
    """Queries are scaled in float32 and rounded."""
    q = emit(op.multiply(_wide(emit, q), relax.const(0.3, "float32")))
    scores = emit(op.matmul(emit(op.astype(q, k.ty.dtype)), emit(op.permute_dims(k, [0, 1, 3, 2]))))
    return emit(op.matmul(emit(nn.softmax(scores)), v))


def _hidden_at_run_time(emit: Build, q: Any, k: Any, v: Any, seen: Any) -> Any:
    dtype = q.ty.dtype
    mask = emit(op.where(seen, relax.const(0.0, dtype), relax.const(-1e4, dtype)))
    b, t = (int(e) for e in mask.ty.shape)
    mask = emit(op.reshape(mask, (b, 1, 1, t)))
    return _as_torch(emit, q, k, v, _wide(emit, mask))


def repeated_heads(emit: Build, x: Any, times: int) -> Any:
    """Each head of keys or values ``times`` in a row, for grouped queries."""
    b, h, t, d = (int(e) for e in x.ty.shape)
    x = emit(op.broadcast_to(emit(op.expand_dims(x, [2])), (b, h, times, t, d)))
    return emit(op.reshape(x, (b, times * h, t, d)))


def _grouped(emit: Build, q: Any, k: Any, v: Any) -> Any:
    k, v = (repeated_heads(emit, x, 2) for x in (k, v))
    mask = relax.const(causal(5, 9).reshape(1, 1, 5, 9))
    return _joined(emit, _as_torch(emit, q, k, v, mask))


def _operator(**attrs: Any) -> Build:
    return lambda emit, *xs: emit(nn.attention(*xs, **attrs))


def _by_position(f: Callable[..., Array]) -> Callable[..., Array]:
    """A reference over (batch, position, heads, elements)."""

    def reference(*xs: Array) -> Array:
        return f(*(x.transpose(0, 2, 1, 3) for x in xs)).transpose(0, 2, 1, 3)

    return reference


Q, K, V = (2, 3, 5, 16), (2, 3, 9, 16), (2, 3, 9, 8)
PADDED = np.where(np.arange(9) % 4 == 1, -INF, np.arange(9) / 8).reshape(1, 1, 1, 9)
BY_HEAD = (np.arange(3 * 45).reshape(1, 3, 5, 9) % 7 / 4).astype("float32")
CORNER = "s.causal = kFrom"
BY_WINDOW = np.where(np.arange(90).reshape(1, 2, 1, 5, 9) % 11 < 4, -100.0, 0.0)
WINDOWS = (BY_HEAD + BY_WINDOW).repeat(2, 0).reshape(4, 3, 5, 9)
PLAIN = "{2, 3, 7, 16}, {336, 16, 48, 1}, 0}"


def _thirds(x: Array) -> list[Array]:
    return [heads(p, 3) for p in np.split(x, 3, -1)]


CASES: dict[str, Case] = {
    "three tensors": Case(((14, 48),) * 3, _three, lambda *xs: merged(attended(
        *(heads(x.reshape(2, 7, 48), 3) for x in xs), scale=0.25)),
        ("s.scale = 0.25f", f"s.q {PLAIN}",
        f"s.k {PLAIN}", f"s.v {PLAIN}", f"s.o {PLAIN}")),
    "one tensor": Case(((2, 7, 144),), _one_tensor, lambda x: merged(attended(
        *_thirds(x), scale=0.25)),
                       ("s.q {2, 3, 7, 16}, {1008, 16, 144, 1}, 0}",
                        "s.k {2, 3, 7, 16}, {1008, 16, 144, 1}, 48}",
                        "s.v {2, 3, 7, 16}, {1008, 16, 144, 1}, 96}")),
    "one tensor, sliced after": Case(
        ((14, 144),), _sliced, lambda x: merged(attended(
            *_thirds(x.reshape(2, 7, 144)), scale=0.25)),
        ("s.v {2, 3, 7, 16}, {1008, 16, 144, 1}, 96}",)),
    "in halves": Case(((6, 5, 16), (6, 9, 16), (6, 9, 8)), _in_halves,
                      lambda *xs: attended(*xs, scale=0.25), ("s.scale = 0.25f",
                      "s.k {1, 6, 9, 16}, {864, 144, 16, 1}, 0}")),
    "bfloat16, softmax in float32": Case(
        (Q, K, V), _wide_softmax, lambda *xs: attended(*xs, scale=0.25),
        ("s.bfloat16 = true",), "bfloat16"),
    "causal": Case((Q, Q, Q), _constant(causal(5, 5)), lambda *xs: attended(
        *xs, scale=0.25, mask=causal(5, 5)), (f"{CORNER}TopLeft",)),
    "causal, more keys": Case((Q, K, V), _constant(causal(5, 9, -3e38)), lambda *xs: attended(
        *xs, scale=0.25, mask=causal(5, 9)), (f"{CORNER}BottomRight",)),
    "keys hidden": Case((Q, K, V), _constant(PADDED), lambda *xs: attended(
        *xs, scale=0.25, mask=PADDED),
                        ("s.mask {1, 1, 5, 9}, {45, 45, 9, 1}, 0}",)),
    "a bias by head": Case((Q, K, V), _constant(BY_HEAD), lambda *xs: attended(
        *xs, scale=0.25, mask=BY_HEAD),
                           ("s.mask {1, 3, 5, 9}, {135, 45, 9, 1}, 0}",), "bfloat16"),
    "a bias by head and a mask by window": Case(
        ((4, 3, 5, 16), (4, 3, 9, 16), (4, 3, 9, 8)), _windows, lambda *xs: attended(
            *xs, scale=1.0, mask=WINDOWS),
        ("s.mask {1, 12, 5, 9}, {540, 45, 9, 1}, 0}",)),
    "scaled queries": Case((Q, K, V), _scaled_queries, lambda *xs: attended(*xs, scale=0.3),
                           ("s.scale = 0.3f",)),
    "no mask": Case((Q, K, V), _constant(np.zeros((1, 1, 5, 9))), lambda *xs: attended(
        *xs, scale=0.25),
                    ("s.scale = 0.25f",)),
    "keys hidden at run time": Case(
        (Q, K, V, (2, 9)), _hidden_at_run_time, lambda q, k, v, m: attended(
            q, k, v, 0.25, np.where(m, 0.0, -1e4).reshape(2, 1, 1, 9)),
        ("s.mask {2, 1, 5, 9}, {9, 45, 0, 1}, 0}",), masks=(3,)),
    "shared keys": Case(((2, 4, 5, 16), (2, 2, 9, 16), (2, 2, 9, 16)), _grouped,
                        lambda q, k, v: merged(attended(q, k.repeat(2, 1), v.repeat(2, 1), 0.25,
                                                        causal(5, 9))),
                        ("s.q {2, 4, 5, 16}, {320, 80, 16, 1}, 0}",
                         "s.k {2, 2, 9, 16}, {288, 144, 16, 1}, 0}")),
    "operator": Case(((2, 5, 3, 16), (2, 9, 3, 16), (2, 9, 3, 8)), _operator(scale=0.3),
                     _by_position(lambda *xs: attended(*xs, scale=0.3)), ("s.scale = 0.3f",)),
    "causal operator": Case(((2, 7, 3, 16),) * 3, _operator(causal_mask="TopLeft"),
                            _by_position(lambda *xs: attended(*xs, scale=0.25, mask=causal(7, 7))),
                            ("s.scale = 0.25f",
                             f"{CORNER}TopLeft")),
    "operator with a bias": Case(
        ((2, 5, 3, 16), (2, 9, 3, 16), (2, 9, 3, 8)), lambda e, *xs: e(nn.attention(
            *xs, relax.const(BY_HEAD.astype("float16")))),
        _by_position(lambda *xs: attended(*xs, scale=0.25, mask=BY_HEAD)),
        ("s.mask {1, 3, 5, 9}, {135, 45, 9, 1}, 0}",)),
}  # fmt: skip
