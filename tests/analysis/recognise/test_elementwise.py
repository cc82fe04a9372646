"""What tells one elementwise op from another: the order of operands, literals, conversions."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from opinfo.analysis.answer.recover import op_info
from opinfo.analysis.results.op_info import OpInfo, Refusal

SCRIPT = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4,), "{0}"), y: T.Buffer((4,), "{0}"), out: T.Buffer((4,), "{1}")):
    for i in range(4):
        with T.sblock("c"):
            vi = T.axis.spatial(4, i)
            out[vi] = {2}
"""


def info(value: str, dtype: str = "float32", out: str | None = None) -> OpInfo | Refusal:
    return op_info(tvm.script.from_source(SCRIPT.format(dtype, out or dtype, value)))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("y[vi] - x[vi]", "relax.subtract"),
        ("y[vi] / x[vi]", "relax.divide"),
        ("T.pow(y[vi], x[vi])", "relax.power"),
        ("T.max(y[vi], x[vi])", "relax.maximum"),
    ],
)
def test_swapped_operands_are_found_in_order(value: str, name: str) -> None:
    found = info(value)
    assert isinstance(found, OpInfo)
    assert (found.name, found.operands) == (name, (1, 0))


@pytest.mark.parametrize(
    ("value", "dtype", "name", "attrs"),
    [
        ("x[vi] * T.float32(0.1)", "float32", "relax.multiply", {"x2": 0.1}),
        ("T.float32(3) / x[vi]", "float32", "relax.divide", {"x1": 3.0}),
        ("T.max(T.float32(0), x[vi])", "float32", "relax.maximum", {"x1": 0.0}),
        ("T.truncdiv(2, x[vi])", "int32", "relax.divide", {"x1": 2}),
        ("T.floordiv(2, x[vi])", "int32", "relax.floor_divide", {"x1": 2}),
        ("T.truncmod(x[vi], 7)", "int32", "relax.mod", {"x2": 7}),
        ("T.floormod(x[vi], 7)", "int32", "relax.floor_mod", {"x2": 7}),
        ("3 - x[vi]", "int32", "relax.subtract", {"x1": 3}),
    ],
)
def test_literals_become_attributes(
    value: str, dtype: str, name: str, attrs: dict[str, Any]
) -> None:
    found = info(value, dtype)
    assert isinstance(found, OpInfo)
    assert (found.name, dict(found.attrs)) == (name, attrs)


@pytest.mark.parametrize(
    ("value", "dtype", "out"),
    [
        ("T.Cast('float32', T.Cast('int32', x[vi]))", "uint32", "float32"),
        ("T.Cast('int64', T.Cast('int32', x[vi]))", "uint64", "int64"),
        ("T.Cast('float32', T.Cast('float16', x[vi]))", "float32", "float32"),
        ("x[vi] + x[vi] * y[vi]", "int64", "int64"),
    ],
)
def test_near_misses_are_refused(value: str, dtype: str, out: str) -> None:
    assert isinstance(info(value, dtype, out), Refusal)
