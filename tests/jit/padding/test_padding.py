"""Which dimensions may be padded, with what, and why not; wrong proofs would show in the oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.analysis import Refusal
from opinfo.jit.aot.merge import Bucket, merge
from opinfo.jit.dims.symbolic_dims import bind
from opinfo.jit.padding import PaddingProof, pad_safe
from opinfo.jit.padding.padding_claim import FINITE

from ..legalised import Shape, kernel
from . import oracle

op, nn = relax.op, relax.op.nn

#: An expression, its tensors' shapes; per growing input ``param: content`` (None: anything).
SAFE: dict[str, tuple[Callable[..., Any], list[Shape], dict[int, float | None]]] = {
    "relu": (lambda x: nn.relu(x), [("n", 8)], {0: None}),
    "bias": (lambda x, b: op.add(x, b), [("n", 8), (8,)], {0: None}),
    "matmul rows": (lambda x, w: op.matmul(x, w), [("n", 8), (8, 4)], {0: None}),
    "matmul inside": (lambda x, w: op.matmul(x, w), [(4, "n"), ("n", 8)], {0: 0.0, 1: 0.0}),
    "sum": (lambda x: op.sum(x, [0]), [("n", 8)], {0: 0.0}),
    "sum of the other axis": (lambda x: op.sum(x, [1]), [("n", 8)], {0: None}),
    "max": (lambda x: op.max(x, [0]), [("n", 8)], {0: -math.inf}),
    "min": (lambda x: op.min(x, [0]), [("n", 8)], {0: math.inf}),
    "prod": (lambda x: op.prod(x, [0]), [("n", 8)], {0: 1.0}),
    "softmax": (lambda x: nn.softmax(x, 0), [("n", 8)], {0: -math.inf}),
    "log_softmax": (lambda x: nn.log_softmax(x, 0), [("n", 8)], {0: -math.inf}),
    "softmax of the other axis": (lambda x: nn.softmax(x, 1), [("n", 8)], {0: None}),
    "conv2d of a batch": (
        lambda x, w: nn.conv2d(x, w, padding=(1, 1)), [("n", 3, 8, 8), (4, 3, 3, 3)], {0: None}),
    "conv2d of an image": (
        lambda x, w: nn.conv2d(x, w, padding=(1, 1)), [(1, 3, "n", "n"), (4, 3, 3, 3)], {0: 0.0}),
    "conv2d with strides": (
        lambda x, w: nn.conv2d(x, w, (2, 2), (1, 1)), [(1, 3, "n", 8), (4, 3, 3, 3)], {0: 0.0}),
    "max_pool2d": (lambda x: nn.max_pool2d(x, (2, 2), (2, 2)), [(1, 3, "n", 8)], {0: None}),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, [-1]), [("n", 8), (8,), (8,)], {0: None}),
    "transpose": (lambda x: op.permute_dims(x, [1, 0]), [("n", 8)], {0: None}),
    "concat of the other axis": (
        lambda x, y: op.concat([x, y], 1), [("n", 8), ("n", 4)], {0: None, 1: None}),
    "flatten": (lambda x: op.flatten(x), [("n", 8)], {0: None}),
    "argmax": (lambda x: op.argmax(x, 0), [("n", 8)], {0: -math.inf}),
    "twice as long": (lambda x: nn.relu(x), [("2*n", "n")], {0: None}),
}  # fmt: skip

UNSAFE: dict[str, tuple[Callable[..., Any], list[Shape], str]] = {
    "mean": (lambda x: op.mean(x, [0]), [("n", 8)], "n changes"),
    "flip": (lambda x: op.flip(x, 0), [("n", 8)], r"axis 0 of the read x0\[n - y0 - 1, y1\]"),
    "concat": (lambda x, y: op.concat([x, y], 0), [("n", 8), ("n", 8)], "axis 0 of the read x1"),
    "flatten behind": (lambda x: op.flatten(x), [(8, "n")], "axis 0 of the read x0"),
    "variance": (lambda x: op.variance(x, [0]), [("n", 8)], "changes"),
    "layer_norm": (
        lambda x, g, b: nn.layer_norm(x, g, b, [-1]), [(8, "n"), ("n",), ("n",)], "changes"),
    "resize": (lambda x: op.image.resize2d(x, (8, 8)), [(1, 3, "n", 8)], ""),
    "a sum of what is not 0": (
        lambda x: op.sum(op.exp(op.abs(x)), [0]), [("n", 8)], "includes padding"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_safe(name: str) -> None:
    build, shapes, contents = SAFE[name]
    found = pad_safe(kernel(build, shapes), "n")
    assert isinstance(found, PaddingProof), found
    assert {g.param: g.content for g in found.inputs} == contents


@pytest.mark.parametrize("name", UNSAFE)
def test_refused(name: str) -> None:
    build, shapes, why = UNSAFE[name]
    found = pad_safe(kernel(build, shapes), "n")
    assert isinstance(found, Refusal), found
    assert re.search(why, found.reason), found


def test_the_proof_lists_the_axes_that_grow() -> None:
    found = pad_safe(kernel(lambda x: op.permute_dims(x, [1, 0]), [("n", "2*n")]), "n")
    assert isinstance(found, PaddingProof)
    assert [g.axes for g in (*found.inputs, *found.outputs)] == [(0, 1), (0, 1)]
    assert not found.assumes


def test_the_proof_lists_what_it_assumes_of_valid_elements() -> None:
    names = ("softmax", "max", "min", "sum", "relu")
    found = [pad_safe(kernel(SAFE[k][0], SAFE[k][1]), "n") for k in names]
    assert [isinstance(p, PaddingProof) and p.assumes for p in found] == [(FINITE,)] * 3 + [(), ()]


def test_another_dimension_stays_as_it_is() -> None:
    func = kernel(lambda x, w: op.matmul(x, w), [("n", "k"), ("k", 8)])
    n, k = pad_safe(func, "n"), pad_safe(func, "k")
    assert isinstance(n, PaddingProof) and [g.param for g in n.inputs] == [0]
    assert isinstance(k, PaddingProof) and {g.param: g.content for g in k.inputs} == {
        0: 0.0,
        1: 0.0,
    }


def test_a_name_that_is_not_a_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of the dimensions \['n'\], got 'q'"):
        pad_safe(kernel(lambda x: nn.relu(x), [("n", 8)]), "q")


# ------------------------------------------------------------------------ what garbage could break


def test_indices_in_the_padding_must_be_zero() -> None:
    func = kernel(
        lambda x, i: op.take(x, i, 0, mode="fast"), [(10, 8), ("n",)], ("float32", "int64")
    )
    found = pad_safe(func, "n")
    assert isinstance(found, PaddingProof) and [(g.param, g.content) for g in found.inputs] == [
        (1, 0)
    ]


def test_clamped_indices_may_be_anything() -> None:
    func = kernel(
        lambda x, i: op.take(x, i, 0, mode="clip"), [(10, 8), ("n",)], ("float32", "int64")
    )
    found = pad_safe(func, "n")
    assert isinstance(found, PaddingProof) and [g.content for g in found.inputs] == [None]


@T.prim_func(private=True, s_tir=True)
def dead_read(x: T.Buffer((10,), "float32"), p: T.handle, y: T.Buffer((1,), "float32")) -> None:
    n = T.int64()
    index = T.match_buffer(p, (n,), "int32")
    t = T.alloc_buffer((n,), "float32")
    for i in range(n):
        t[i] = x[index[i] + 12]
    y[0] = t[0]


@T.prim_func(private=True, s_tir=True)
def conditional(x: T.Buffer((10,), "float32"), p: T.handle, q: T.handle) -> None:
    n = T.int64()
    index = T.match_buffer(p, (n,), "int32")
    y = T.match_buffer(q, (n,), "float32")
    for i in range(n):
        if i + 3 < n:
            y[i] = x[index[i]]
        else:
            y[i] = T.float32(0)


@T.prim_func(private=True, s_tir=True)
def divided(p: T.handle, q: T.handle) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "int32")
    y = T.match_buffer(q, (n,), "int32")
    for i in range(n):
        y[i] = 100 // x[i]


@T.prim_func(private=True, s_tir=True)
def ragged(p: T.handle, q: T.handle) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "int32")
    y = T.match_buffer(q, (n,), "int32")
    for i in range(n):
        y[i] = 0
        for j in range(x[i]):
            y[i] = y[i] + j


@pytest.mark.parametrize("func", [dead_read, conditional, divided, ragged])
def test_a_trap_is_refused(func: Any) -> None:
    assert isinstance(pad_safe(func, "n"), Refusal), pad_safe(func, "n")


@T.prim_func(private=True, s_tir=True)
def bound(x: T.Buffer((10,), "float32"), p: T.handle, q: T.handle) -> None:
    n = T.int64()
    index = T.match_buffer(p, (n,), "int32")
    y = T.match_buffer(q, (n,), "float32")
    for i in range(n):
        place: T.let[T.int32] = index[i] + 12
        y[i] = x[place]


@T.prim_func(private=True, s_tir=True)
def sometimes(x: T.Buffer((10,), "float32"), p: T.handle, y: T.Buffer((3,), "float32")) -> None:
    n = T.int64()
    index = T.match_buffer(p, (n,), "int32")
    t = T.alloc_buffer((n,), "float32")
    for j in range(n - 1):
        t[j] = x[index[j]]
    for i in range(3):
        y[i] = x[i]


@T.prim_func(private=True, s_tir=True)
def overflow(p: T.handle, y: T.Buffer((1,), "int32")) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "int32")
    y[0] = 2147483647
    for i in range(n):
        y[0] = T.min(y[0], 0 - x[i])


@T.prim_func(private=True, s_tir=True)
def triangle(p: T.handle, y: T.Buffer((1,), "float32")) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n, n), "float32")
    y[0] = T.float32(0)
    for i in range(n):
        for j in range(i + 1):
            y[0] = y[0] + x[j, i - j]


@T.prim_func(private=True, s_tir=True)
def weighted(p: T.handle, q: T.handle, y: T.Buffer((1,), "float32")) -> None:
    n = T.int64()
    x = T.match_buffer(p, (n,), "float32")
    w = T.match_buffer(q, (n,), "float32")
    y[0] = T.float32(0)
    for i in range(n):
        y[0] = y[0] + x[i] * (T.float32(1) / w[i])


def repeated(least: int) -> Any:
    """The largest of -1 and x, taken over n - least iterations."""

    @T.prim_func(private=True, s_tir=True)
    def func(p: T.handle, x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32")) -> None:
        n = T.int64()
        T.match_buffer(p, (n,), "float32")
        y[0] = T.float32(-1)
        for _i in range(n - T.int64(least)):
            y[0] = T.max(y[0], x[0])

    return func


def test_the_same_once_more_changes_nothing_where_it_was_there_once() -> None:
    """At n = 1 a loop over n - 1 does not run. max(NaN, x) is x."""
    found = pad_safe(repeated(0), "n")
    assert isinstance(found, PaddingProof) and found.assumes == (FINITE,), found
    assert isinstance(pad_safe(repeated(1), "n"), Refusal)


@T.prim_func(private=True, s_tir=True)
def is_last(q: T.handle) -> None:
    n = T.int64()
    y = T.match_buffer(q, (n,), "bool")
    for i in range(n):
        y[i] = i + 1 < n


@T.prim_func(private=True, s_tir=True)
def is_there(q: T.handle) -> None:
    n = T.int64()
    y = T.match_buffer(q, (n,), "bool")
    for i in range(n):
        y[i] = i < n


def test_a_condition_is_the_same_at_all_sizes() -> None:
    found = pad_safe(is_last, "n")
    assert isinstance(found, Refusal) and "condition" in found.reason, found
    assert isinstance(pad_safe(is_there, "n"), PaddingProof)


@pytest.mark.parametrize("func", [bound, sometimes, overflow])
def test_what_the_padding_could_break_elsewhere_is_refused(func: Any) -> None:
    assert isinstance(pad_safe(func, "n"), Refusal), pad_safe(func, "n")


@pytest.mark.parametrize("func", [triangle, weighted])
def test_a_proof_holds_in_the_oracle_or_is_none(func: Any) -> None:
    found = pad_safe(func, "n")
    if isinstance(found, PaddingProof):
        contents = {g.param: g.content for g in found.inputs}
        assert oracle.safe(oracle.compiled(func), "n", contents), found


# ------------------------------------------------------------------------ against the oracle


@T.prim_func(s_tir=True)
def counted(a: T.handle, n: T.int64, b: T.handle) -> None:
    """``b = 2 * a`` of n + 1 elements: no shape says that n is at least 1."""
    T.func_attr({"tirx.noalias": True})
    x = T.match_buffer(a, (n + 1,), "float32")
    y = T.match_buffer(b, (n + 1,), "float32")
    for i in T.grid(n + 1):
        with T.sblock("y"):
            k = T.axis.remap("S", [i])
            y[k] = x[k] * T.float32(2)


def test_a_dimension_that_is_a_number_is_at_least_one() -> None:
    """The spans of a bucket see to it; below them the function itself serves."""
    found = pad_safe(counted, "n")
    assert isinstance(found, PaddingProof)
    assert [(g.param, g.axes) for g in (*found.inputs, *found.outputs)] == [(0, (0,)), (2, (0,))]
    bucket = Bucket(bind(counted, {"n": 6}), {"n": 6}, [found])
    func = merge(counted, [bucket]).with_attr("global_symbol", "f")
    built = tvm.tirx.build(tvm.IRModule({"f": func}), "llvm")["f"]
    for n in (0, 1, 4, 6, 7):
        x = np.arange(n + 1, dtype="float32")
        y = tvm.runtime.tensor(np.full(n + 1, np.nan, "float32"))
        built(tvm.runtime.tensor(x), n, y)
        np.testing.assert_array_equal(y.numpy(), 2 * x)
