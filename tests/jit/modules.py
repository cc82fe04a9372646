"""Relax modules with symbolic shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

Array = np.ndarray[Any, Any]
WIDTH = 16


def weight(seed: int = 0) -> Array:
    """Of the matmuls, (WIDTH, WIDTH)."""
    return np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype("float32")


def dense(layers: int = 1) -> Any:
    """``relu(x @ w)`` of x: (n, WIDTH), as many times as there are layers."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64"), WIDTH), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y: Any = x
            for k in range(layers):
                y = bb.emit(relax.op.nn.relu(relax.op.matmul(y, relax.const(weight(k)))))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def expected(x: Array, layers: int = 1) -> Array:
    """What `dense` computes."""
    for k in range(layers):
        x = np.maximum(x @ weight(k), 0)
    return x


def rows(n: int) -> Array:
    """An input of n rows."""
    return np.random.default_rng(n).standard_normal((n, WIDTH)).astype("float32")


def attention() -> Any:
    """``softmax(q @ kᵀ) @ k`` of q: (n, WIDTH), k: (m, WIDTH)."""
    bb = relax.BlockBuilder()
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    q = relax.Var("q", relax.TensorType((n, WIDTH), "float32"))
    k = relax.Var("k", relax.TensorType((m, WIDTH), "float32"))
    with bb.function("main", [q, k]):
        with bb.dataflow():
            scores = bb.emit(relax.op.matmul(q, relax.op.permute_dims(k)))
            out = bb.emit_output(relax.op.matmul(relax.op.nn.softmax(scores), k))
        bb.emit_func_output(out)
    return bb.get()


#: Two functions for outside and one for inside.
SEVERAL = """
@I.ir_module
class Module:
    @R.function
    def prefill(x: R.Tensor((1, "n", 16), "float32")) -> R.Tensor((1, "n", 16), "float32"):
        cls = Module
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        return cls.twice(y)

    @R.function
    def decode(x: R.Tensor(("b", 16), "float32")) -> R.Tensor(("b", 16), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

    @R.function(private=True)
    def twice(x: R.Tensor((1, "k", 16), "float32")) -> R.Tensor((1, "k", 16), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y
"""
