"""Conditions, divisors and bounds on which a padded dimension depends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from opinfo.analysis import Refusal
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.jit.aot.merge import Bucket, merge
from opinfo.jit.padding import PaddingProof, pad_safe
from opinfo.jit.padding.padding_claim import FINITE

from . import oracle


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
