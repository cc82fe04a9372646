"""Terms with more operands, or greater literals, than an operator has: no recogniser fails."""

from __future__ import annotations

import warnings

import pytest
import tvm

from opinfo.analysis import RecogniserWarning, Refusal, layout_normalised, op_info, op_infos
from opinfo.analysis.answer.internal_error import FAULT

SOURCE = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({n}, 4), "{dtype}"), y: T.Buffer(({n}, 4), "{dtype}"),
         out: T.Buffer(({n}, 4), "{result}")):
    for i, j in T.grid({n}, 4):
        out[i, j] = {value}
"""
VALUES = [
    "T.{op}(T.{op}(x[i, j], y[i, j]), {three})",
    "T.{op}({three}, T.{op}(y[i, j], x[i, j]))",
    "T.{op}(T.{op}(x[i, j], y[i, j]), T.{op}(x[j % {n}, 0], {three}))",
    "T.{op}(T.{op}(x[i, j], y[i, j]), y[i, 0]) + {three}",
    "x[i, T.{op}(T.{op}(T.min(T.max(j - 1, 0), 3), i), 0) % 4]",
]


def reasons(source: str) -> list[str]:
    """Why each question is refused, if it is; a failed recogniser is a fault."""
    func = tvm.script.from_source(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecogniserWarning)
        answers = [ask(func) for ask in (op_info, op_infos, layout_normalised)]
    return [a.reason for a in answers if isinstance(a, Refusal)]


def check(source: str) -> None:
    assert not [text for text in reasons(source) if FAULT in text]


@pytest.mark.part
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("value", VALUES)
def test_extremes_of_three(op: str, dtype: str, n: int, value: str) -> None:
    text = value.format(op=op, three=f"T.{dtype}(3)", n=n)
    check(SOURCE.format(n=n, dtype=dtype, result=dtype, value=text))


@pytest.mark.parametrize("op", ["And", "Or"])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_conditions_of_three(op: str, dtype: str) -> None:
    three = f"T.{op}(T.{op}(x[i, j] < y[i, j], x[i, j] > T.{dtype}(3)), y[i, j] < T.{dtype}(7))"
    check(SOURCE.format(n=4, dtype=dtype, result="bool", value=three))
    chosen = f"T.if_then_else({three}, x[i, j], y[i, j])"
    check(SOURCE.format(n=4, dtype=dtype, result=dtype, value=chosen))


@pytest.mark.part
@pytest.mark.parametrize(
    "value",
    ["A", "T.max(A, x[i])", "x[i] + A", "A * (x[i] + T.int64(1))",
     "T.if_then_else(i == 0, A, x[i])",
     "T.if_then_else(i == 0, A, T.int64(3))", "A * (i + T.int64(1))", "x[i] * A + A"],
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_literal_outside_of_its_type_is_not_built(value: str, n: int, bits: int) -> None:
    above = f"T.FloorDiv(T.int64(-2 ** {bits - 1}), T.int64(-1))"
    source = f"""
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({n},), "int64"), out: T.Buffer(({n},), "int64")):
    for i in T.serial(T.int64({n})):
        out[i] = {value.replace("A", above)}
"""
    texts = reasons(source.replace("int64", f"int{bits}"))
    assert texts and not [t for t in texts if FAULT in t]
