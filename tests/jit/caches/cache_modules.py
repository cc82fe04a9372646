"""Modules with caches, and what attention over their rows is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

op = relax.op
Array = np.ndarray[Any, Any]
Emit = Callable[[Any], Any]


WIDTH = 4


def attention(*, fields: bool = False, batch: Any = 1, names: tuple[str, ...] = ("main",)) -> Any:
    """A module whose functions attend to what they have cached: keys x, values 2 x."""
    builder = relax.BlockBuilder()
    for name in names:
        s, p = (1 if name == "decode" else tirx.Var("s", "int64")), tirx.Var("p", "int64")
        batched = tirx.Var("b", "int64") if batch is None else batch
        x = relax.Var("x", relax.TensorType([batched, s, WIDTH], "float32"))
        cache = relax.TensorType([batched, p, WIDTH], "float32")
        params = [relax.Var("past", relax.TupleType([cache, cache]))]
        if not fields:
            params = [relax.Var("keys", cache), relax.Var("values", cache)]
        with builder.function(name, [x, *params]):
            with builder.dataflow():
                old = [relax.TupleGetItem(params[0], k) for k in (0, 1)] if fields else params
                twice = builder.emit(op.add(x, x))
                keys = builder.emit(op.concat([old[0], x], 1))
                values = builder.emit(op.concat([old[1], twice], 1))
                scores = builder.emit(op.matmul(x, op.permute_dims(keys, [0, 2, 1])))
                read = builder.emit(op.matmul(builder.emit(op.nn.softmax(scores)), values))
                out = builder.emit_output(relax.Tuple([read, relax.Tuple([keys, values])]))
            builder.emit_func_output(out)
    return builder.get()


def expected(rows: list[Array]) -> Array:
    keys = np.concatenate(rows, 1)
    scores = np.exp(rows[-1] @ keys.transpose(0, 2, 1))
    return np.asarray(scores / scores.sum(-1, keepdims=True) @ (2 * keys))


def draw(count: int, batch: int = 1, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((batch, count, WIDTH)).astype("float32")


def module_of(body: Callable[[Emit, Any, Any], Any], *sizes: Any) -> tvm.IRModule:
    """A module of a function of x and a cache."""
    builder, s = relax.BlockBuilder(), tirx.Var("s", "int64")
    x, *pasts = (relax.Var(n, relax.TensorType([1, e, WIDTH], "float32"))
                 for n, e in zip(("x", "a", "b"), (s, *sizes), strict=False))  # fmt: skip
    with builder.function("main", [x, *pasts]):
        with builder.dataflow():
            out = builder.emit_output(body(builder.emit, x, pasts))
        builder.emit_func_output(out)
    return builder.get()


def summed(emit: Emit, joined: Any, *others: Any) -> Any:
    joined = emit(joined)
    return relax.Tuple([emit(op.sum(joined, [1])), joined, *others])


def tail(emit: Emit, cache: Any, x: Any, count: int, less: int = 0, step: int = 1) -> Any:
    """The sum of a cache with new rows, and ``count`` rows before the last ``less``."""
    joined = emit(op.concat([cache, x], 1))
    end = joined.ty.shape[1] - less
    begin = end - count if count else 0
    part = op.strided_slice(joined, [1], [begin], [end], [step], assume_inbound=True)
    return relax.Tuple([emit(op.sum(joined, [1])), emit(part)])


def total(out: Any) -> Any:
    return op.sum(out, [1])


def updated(
    emit: Emit, cache: Any, x: Any, read: Callable[[Any], Any] = total,
    reduction: str = "update", back: tuple[int, ...] = (1, 0, 2),
    chained: Callable[[Any], Any] | None = None,
) -> Any:  # fmt: skip
    """What reads a cache with rows at positions 2, 3, ..., and the cache."""
    count = x.ty.shape[1]
    first = emit(op.permute_dims(cache, [1, 0, 2]))
    index = emit(op.reshape(emit(op.arange(2, count + 2, 1, "int64")), [count, 1]))
    rows = emit(op.permute_dims(x, [1, 0, 2]))
    out = emit(op.permute_dims(emit(op.scatter_nd(first, index, rows, reduction)), back))
    others = [] if chained is None else [emit(chained(first))]
    return relax.Tuple([emit(read(out)), out, *others])


P, Q = tirx.Var("p", "int64"), tirx.Var("q", "int64")
