"""All upper halves of a float32 are rounded to bfloat16 as ml_dtypes does it, NaN and ties too."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.prepare.loops.bfloat16_words import number_of, rounded, word_of
from opinfo.byoc.prepare.loops.round_bfloat16 import round_bfloat16
from opinfo.byoc.schedule.nest.bfloat16_values import in_float32, with_rounded_casts

COUNT = 1 << 16
#: Lower halves: nothing, the least, both sides of a tie, the tie, and the most.
LOWER = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


def numbers(lower: int) -> Any:
    """All float32 with these lower bits."""
    return (np.arange(COUNT, dtype="uint32") << 16 | np.uint32(lower)).view("float32")


def check(actual: Any, lower: int) -> None:
    """Assert that numbers with these lower bits have been rounded, bit for bit except for NaN."""
    with np.errstate(invalid="ignore"):
        expected = numbers(lower).astype(ml_dtypes.bfloat16).astype("float32")
    is_nan = np.isnan(expected)
    assert is_nan.sum() == 2 * ((1 << 7) - (lower == 0))
    assert np.isnan(actual[is_nan]).all()
    np.testing.assert_array_equal(actual[~is_nan].view("uint32"), expected[~is_nan].view("uint32"))
    assert (np.signbit(actual) == np.signbit(numbers(lower))).all()


def mapped(dtype: str, value: Any, lanes: int) -> Any:
    """A compiled function of all numbers, in vectors."""
    x, y = (tirx.decl_buffer([COUNT], d, name=n) for n, d in (("x", "float32"), ("y", dtype)))
    i = tirx.Var("i", "int32")
    place = tirx.Ramp(i * lanes, 1, lanes) if lanes > 1 else i
    store = tirx.BufferStore(y, value(tirx.BufferLoad(x, [place])), [place])
    body = tirx.For(i, 0, COUNT // lanes, tirx.ForKind.SERIAL, store)
    return compiled(tirx.PrimFunc([x, y], body))


def compiled(func: Any) -> Any:
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return tvm.compile(mod, target=native_target())["main"]


def computed(function: Any, lower: int, dtype: Any = "float32") -> Any:
    out = tvm.runtime.tensor(np.zeros(COUNT, dtype))
    function(tvm.runtime.tensor(numbers(lower)), out)
    return out.numpy()


@pytest.mark.parametrize("lanes", [1, 8])
def test_words_are_rounded_to_even(lanes: int) -> None:
    wide = mapped("float32", lambda x: rounded(x, lanes), lanes)
    words = mapped("uint16", lambda x: word_of(x, lanes), lanes)
    back = mapped("float32", lambda x: number_of(word_of(x, lanes), lanes), lanes)
    for lower in LOWER:
        check(computed(wide, lower), lower)
        check(computed(back, lower), lower)
        check(computed(words, lower, "uint16").view(ml_dtypes.bfloat16).astype("float32"), lower)


@T.prim_func(private=True)
def cast_inside(x: T.Buffer((COUNT,), "float32"), y: T.Buffer((COUNT,), "float32")) -> None:
    for i in range(COUNT):
        y[i] = T.Cast("float32", T.Cast("bfloat16", x[i]))


@T.prim_func(private=True)
def cast_stored(x: T.Buffer((COUNT,), "float32"), y: T.Buffer((COUNT,), "bfloat16")) -> None:
    for i in range(COUNT):
        y[i] = T.Cast("bfloat16", x[i])


def test_casts_that_are_stored_are_rounded_to_even() -> None:
    """TVM's cast makes an infinity of 0x7F800001, and -0 of 0x7FFFFFFF."""
    mod = round_bfloat16(tvm.IRModule({"main": cast_stored}))
    body = with_rounded_casts(cast_stored)
    for func in (mod["main"], body.with_body(in_float32(body.body))):
        function = compiled(func)
        for lower in LOWER:
            words = computed(function, lower, ml_dtypes.bfloat16).view(ml_dtypes.bfloat16)
            check(words.astype("float32"), lower)


def test_casts_inside_of_a_kernel_are_rounded_to_even() -> None:
    mod = round_bfloat16(tvm.IRModule({"main": cast_inside}))
    body = with_rounded_casts(cast_inside)
    for func in (mod["main"], body.with_body(in_float32(body.body))):
        function = compiled(func)
        for lower in LOWER:
            check(computed(function, lower), lower)
