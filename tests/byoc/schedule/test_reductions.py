"""Reductions: over what is contiguous, over outer axes, with several results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from .fused import at, built, fused_one, inputs, run, scheduled

op, nn = relax.op, relax.op.nn


def softmax(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b


def rms_norm(x: Any, g: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * g


CASES: dict[str, tuple[Any, Any, Any]] = {
    "softmax": ([["n", 3, "m"]], lambda emit, x: nn.softmax(x, -1), softmax),
    "softmax of an outer axis": ([["n", 7, 5]], lambda emit, x: nn.softmax(x, 1),
                                 lambda x: softmax(x, 1)),
    "layer_norm": ([["n", 3, 48], [48], [48]],
                   lambda emit, x, g, b: nn.layer_norm(x, g, b, [-1]), layer_norm),
    "rms_norm": ([["n", 3, 50], [50]], lambda emit, x, g: nn.rms_norm(x, g, [-1]), rms_norm),
    "sum of rows": ([["n", "m"]], lambda emit, x: op.sum(x, 1), lambda x: x.sum(1)),
    "sum of columns": ([["n", "m"]], lambda emit, x: op.sum(x, 0), lambda x: x.sum(0)),
    "max of all": ([["n", "m"]], lambda emit, x: op.max(x), np.max),
    "product": ([["n", 5]], lambda emit, x: op.prod(x, 1), lambda x: x.prod(1)),
    "mean of two axes": ([["n", 5, 6, 7]], lambda emit, x: op.mean(x, [2, 3]),
                         lambda x: x.mean((2, 3))),
    "any of not": ([["n", "m"]],
                   lambda emit, x: op.max(emit(op.astype(emit(op.logical_not(emit(op.less(
                       x, relax.const(0.5))))), "int8")), 1),
                   lambda x: (~(x < 0.5)).astype("int8").max(1)),
    "a row and a matrix": ([[33, "m"], ["m"]],
                           lambda emit, w, v: op.matmul(w, v), lambda w, v: w @ v),
}  # fmt: skip
SIZES = [(1, 1), (2, 7), (3, 33), (5, 64), (1, 100)]


@pytest.mark.parametrize("name", CASES)
def test_same_as_numpy(name: str) -> None:
    shapes, expr, oracle = CASES[name]
    func = fused_one(shapes, expr)
    found = scheduled(func)
    assert "serial" not in found.rules and not found.reasons
    kernel = built(found.func)
    for n, m in SIZES:
        sizes = {"n": n, "m": m}
        arrays = inputs(func, sizes)
        kernels = [kernel]
        if (n, m) == (3, 33):
            kernels.append(built(scheduled(at(func, sizes)).func))
        for k in kernels:
            (got,) = run(k, arrays)
            np.testing.assert_allclose(got, oracle(*arrays[:-1]), rtol=1e-4, atol=1e-5)


def test_integers_are_exact() -> None:
    func = fused_one([["n", 37]], lambda emit, x: op.sum(x, 1), ["int32"])
    arrays = inputs(func, {"n": 3})
    (got,) = run(built(scheduled(func).func), arrays)
    np.testing.assert_array_equal(got, arrays[0].sum(1))


def test_products_with_a_transposed_operand() -> None:
    def expr(emit: Any, x: Any, w: Any, b: Any) -> Any:
        return nn.relu(emit(op.add(emit(op.einsum([x, w], "ik,jk->ij")), b)))

    func = fused_one([["n", "k"], [21, "k"], [21]], expr)
    found = scheduled(func)
    assert found.rules == ("lanes",)
    kernel = built(found.func)
    for n, k in [(1, 1), (2, 16), (7, 33), (13, 100)]:
        arrays = inputs(func, {"n": n, "k": k})
        x, w, b, _ = arrays
        (got,) = run(kernel, arrays)
        np.testing.assert_allclose(got, np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-4)
        if n == 7:
            (got,) = run(built(scheduled(at(func, {"n": n, "k": k})).func), arrays)
            np.testing.assert_allclose(got, np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-4)
