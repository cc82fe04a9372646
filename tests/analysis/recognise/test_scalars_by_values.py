"""Integers combined by bits, narrow elements at all values, parts of both signs, joined softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.analysis import Constant, OpInfo, Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.testing.unoptimised import unoptimised

from ..foreign.case import Foreign, judge
from ..foreign.execute import difference
from ..foreign.unseen3.programs import LOW, changed, program

ABS = program(
    "absolute values of int64 by the sign's bits, a loop over columns first",
    "x int64 n,5; out int64 n,5",
    """
    for j, i in T.grid(5, n):
        out[i, j] = (x[i, j] + (x[i, j] >> T.int64(63))) ^ (x[i, j] >> T.int64(63))
    """,
    "relax.abs",
)
NEGATIVE = program(
    "the complement plus one",
    "x int32 n; out int32 n",
    """
    for i in range(n):
        out[i] = (x[i] ^ -1) + 1
    """,
    "relax.negative",
)
SUM = program(
    "a sum by exclusive or and twice the common bits",
    "x int32 4,n; y int32 4,n; out int32 4,n",
    """
    for i, j in T.grid(4, n):
        out[i, j] = (x[i, j] ^ y[i, j]) + T.bitwise_and(x[i, j], y[i, j]) * 2
    """,
    "relax.add",
)
HALF = program(
    "dequantise bytes in float16 by an eighth, by columns",
    "x uint8 5,n; out float16 5,n",
    """
    for j, i in T.grid(n, 5):
        out[i, j] = T.float16(0.125) * T.Cast("float16", x[i, j])
    """,
    "relax.dequantize",
    operands=(0, Constant(0.125, "float16"), Constant(0, "uint8")),
    out_dtype="float16",
)
PRELU = program(
    "prelu of rows: the slope times the smaller part, and the larger part",
    "x n,6; a 6; out n,6",
    """
    for i, j in T.grid(n, 6):
        out[i, j] = T.min(x[i, j], T.float32(0)) * a[j] + T.max(T.float32(0), x[i, j])
    """,
    "relax.nn.prelu",
    axis=1,
)
SOFTMAX = program(
    "softmax of columns: thirds with maxima and totals of their own, then joined",
    "x 9,n; out 9,n",
    f"""
    m = T.alloc_buffer((3,), scope="local")
    s = T.alloc_buffer((3,), scope="local")
    g = T.alloc_buffer((1,), scope="local")
    d = T.alloc_buffer((1,), scope="local")
    for i in range(n):
        for h in range(3):
            m[h] = {LOW}
            for k in range(3):
                m[h] = T.max(m[h], x[h * 3 + k, i])
            s[h] = T.float32(0)
            for k in range(3):
                s[h] = s[h] + T.exp(x[h * 3 + k, i] - m[h])
        g[0] = T.max(T.max(m[0], m[1]), m[2])
        d[0] = (s[0] * T.exp(m[0] - g[0]) + s[1] * T.exp(m[1] - g[0])
            + s[2] * T.exp(m[2] - g[0]))
        for k in range(9):
            out[k, i] = T.exp(x[k, i] - g[0]) / d[0]
    """,
    "relax.nn.softmax",
    axis=0,
)
MATCHES = [ABS, NEGATIVE, SUM, HALF, PRELU, SOFTMAX]
EXACT = [ABS, NEGATIVE, SUM, HALF]

DECOYS = [
    changed("the sign of half the bits", ABS, ("T.int64(63)", "T.int64(31)")),
    changed("the sign's bits are subtracted before", ABS,
            ("x[i, j] + (x", "x[i, j] - (x")),
    changed("the complement plus two", NEGATIVE, (" + 1", " + 2")),
    changed("the complement of all bits but the last", NEGATIVE, ("^ -1", "^ -2")),
    changed("three times the common bits", SUM, (" * 2", " * 3")),
    changed("the values exceed float16, where dequantize is saturated", HALF,
            ("T.float16(0.125)", "T.float16(512)")),
    changed("the slope is of the larger part", PRELU, ("T.min", "T.max")),
    changed("the parts are subtracted", PRELU, ("+ T.max", "- T.max")),
    changed("the parts of another element", PRELU, ("T.max(T.float32(0), x[i, j])",
                                                  "T.max(T.float32(0), x[i, 5 - j])")),
    changed("the total of one third is not rescaled", SOFTMAX,
            ("s[1] * T.exp(m[1] - g[0])", "s[1]")),
    changed("the totals of two thirds are rescaled by the other's maximum", SOFTMAX,
            ("s[1] * T.exp(m[1]", "s[1] * T.exp(m[2]"), ("s[2] * T.exp(m[2]", "s[2] * T.exp(m[1]")),
    program("a product in a sum, which compilers round once", "x int8 9; out float16 9", """
    for i in range(9):
        out[i] = T.Cast("float16", T.Cast("float32", x[i]) * T.float32(137.71898)
                        - T.float32(12394.708))
    """),
    *(program(f"a scale and a shift that are {value}", f"x int8 8; out {dtype} 8", f"""
    for i in range(8):
        out[i] = T.Cast("{dtype}", T.Cast("float32", x[i]) * T.float32("{value}")
                        + T.float32("{value}"))
    """) for value in ("nan", "inf") for dtype in ("float16", "float32")),
    changed("rescaled in the other direction", SOFTMAX,
            ("T.exp(m[0] - g[0])", "T.exp(g[0] - m[0])")),
]  # fmt: skip


@pytest.mark.parametrize("case", MATCHES, ids=lambda c: c.form)
def test_programs_are_the_operator_whose_values_they_have(case: Foreign) -> None:
    func = case.build()
    info = analyse(func).of(func).info
    verdict, why = judge(case, info)
    assert verdict == "recovered", why
    assert isinstance(info, OpInfo) and info.certificate.exact == (case in EXACT)
    assert not difference(func, info.name, info.attrs, info.operands)


FORMULAS: dict[str, tuple[Foreign, Callable[..., Any]]] = {
    "abs": (ABS, np.abs), "negative": (NEGATIVE, np.negative), "add": (SUM, np.add),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_bits_of_negative_and_large_numbers(name: str) -> None:
    case, formula = FORMULAS[name]
    func = case.build()
    *operands, out = func.params
    values = [0, 1, -1, 7, -(2**31) + 1, 2**31 - 1, -12345, 2**30]
    rows = {1: (8,), 2: (8, 5) if name == "abs" else (4, 8)}[len(out.ty.shape)]
    x = np.resize(np.array(values, str(out.ty.dtype)), rows)
    y = np.resize(np.array([0, -1, 1, 2**30, 5, -9, 2**31 - 20000, -(2**30)], x.dtype), rows)
    arrays = [x, y][: len(operands)]
    tensors = [tvm.runtime.tensor(a) for a in (*arrays, np.zeros_like(x))]
    unoptimised(func.with_attr("global_symbol", "main"))["main"](*tensors)
    np.testing.assert_array_equal(tensors[-1].numpy(), formula(*arrays))


@pytest.mark.parametrize("case", DECOYS, ids=lambda c: c.form)
def test_programs_with_other_values_are_refused(case: Foreign) -> None:
    found = analyse(case.build()).info
    assert isinstance(found, Refusal) and "fault" not in found.reason


def test_the_common_bits_once_are_the_bits_of_either() -> None:
    either = changed("once", SUM, (" * 2", " * 1"), op="relax.bitwise_or")
    func = either.build()
    info = analyse(func).of(func).info
    assert judge(either, info) == ("recovered", "")
    assert isinstance(info, OpInfo)
    assert not difference(func, info.name, info.attrs, info.operands)
