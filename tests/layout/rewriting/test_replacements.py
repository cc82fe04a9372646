"""PrimFuncs that are given for an operator: where they are used, and why they are not."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import tvm_ffi
from tvm import relax
from tvm.script import tirx as T

from opinfo.transform import ReplaceOpImpl

from .. import nets
from ..planning.test_plan import check_same

SHAPE = (2, 3)


@T.prim_func(private=True, s_tir=True)
def twice(a: T.Buffer((2, 3), "float32"), out: T.Buffer((2, 3), "float32")) -> None:
    for i, j in T.grid(2, 3):
        with T.sblock("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = a[v, w] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def plus(a: T.Buffer((2, 3), "float32"), out: T.Buffer((2, 3), "float32")) -> None:
    for i, j in T.grid(2, 3):
        with T.sblock("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = a[v, w] + a[v, w]


@T.prim_func(private=True, s_tir=True)
def thrice(a: T.Buffer((2, 3), "float32"), out: T.Buffer((2, 3), "float32")) -> None:
    for i, j in T.grid(2, 3):
        with T.sblock("out"):
            v, w = T.axis.remap("SS", [i, j])
            out[v, w] = a[v, w] * T.float32(3)


def doubled(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.add(x, x))


def scaled(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.multiply(x, relax.const(2.0)))


def summed(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.add(x, emit(relax.op.exp(x))))


@pytest.mark.parametrize(
    ("build", "op", "func"),
    [
        (doubled, "add", twice),
        (doubled, "add", plus),
        (doubled, "multiply", twice),
        (scaled, "multiply", plus),
        (scaled, "multiply", twice),
    ],
)
def test_a_sum_of_a_value_and_itself_is_twice_the_value(build: Any, op: str, func: Any) -> None:
    mod = nets.net(build, SHAPE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        planned = ReplaceOpImpl(op, func, [None, None])(mod)
    assert not any(tvm_ffi.structural_equal(a, b, map_free_vars=True)
                   for a in _prim_funcs(mod) for b in _prim_funcs(planned))  # fmt: skip
    check_same(mod, planned, SHAPE)


@pytest.mark.parametrize(
    ("build", "op", "func", "reason"),
    [
        (doubled, "add", thrice, "the implementation of relax.add is not proved equal"),
        (scaled, "multiply", thrice, "the implementation of relax.multiply is not proved equal"),
        (summed, "add", twice, "it has 3 parameters, expected 2"),
        (doubled, "nn.relu", twice, "no PrimFunc of the module is recognised as relax.nn.relu"),
    ],
)
def test_the_reason_why_nothing_is_replaced(build: Any, op: str, func: Any, reason: str) -> None:
    mod = nets.net(build, SHAPE)
    with pytest.warns(UserWarning, match=reason):
        planned = ReplaceOpImpl(op, func, [None, None])(mod)
    assert tvm_ffi.structural_equal(planned, mod, map_free_vars=True)


def _prim_funcs(mod: Any) -> list[Any]:
    return [f for f in mod.functions.values() if not isinstance(f, relax.Function)]
