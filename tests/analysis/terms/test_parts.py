"""Parts of sums, products and extremes: joined where they touch, and left where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.certify.sampled import compare
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.real import real

from ..foreign.execute import difference
from ..foreign.unseen3.programs import written

ROWS = "x 3,11; out 3"
BODY = """
s = T.alloc_buffer((4,), scope="local")
for i in range(3):
    for u in range(4):
        s[u] = {start}
    for k, u in T.grid(2, 4):
        s[u] = {step}
    for k in range({tail}):
        s[{lane}] = {last}
    out[i] = {whole}
"""
ADD = {
    "start": "T.float32(0)",
    "step": "s[u] + x[i, k * 4 + u]",
    "tail": 3,
    "lane": 0,
    "last": "s[0] + x[i, k + 8]",
    "whole": "(s[0] + s[1]) + (s[2] + s[3])",
}
MAX = {
    **ADD,
    "start": 'T.float32("-inf")',
    "step": "T.max(s[u], x[i, k * 4 + u])",
    "last": "T.max(s[0], x[i, k + 8])",
    "whole": "T.max(T.max(s[0], s[1]), T.max(s[2], s[3]))",
}
NEAR: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the tail one later": (ADD, {"last": "s[0] + x[i, T.min(k + 9, 10)]"}),
    "the tail one short": (ADD, {"tail": 2}),
    "one lane twice": (ADD, {"whole": "(s[0] + s[1]) + (s[2] + s[2])"}),
    "one lane subtracted": (ADD, {"whole": "(s[0] + s[1]) + (s[2] - s[3])"}),
    "the tail twice": (ADD, {"last": "s[0] + x[i, k + 8] * T.float32(2)"}),
    "the tail one short, a maximum": (MAX, {"tail": 2}),
    "one lane left out, a maximum": (MAX, {"whole": "T.max(s[0], T.max(s[1], s[2]))"}),
    "one lane added, a maximum": (MAX, {"whole": "T.max(T.max(s[0], s[1]), s[2]) + s[3]"}),
}


@pytest.mark.parametrize(("parts", "name"), [(ADD, "sum"), (MAX, "max")])
def test_lanes_and_a_tail_are_one_reduction(parts: dict[str, object], name: str) -> None:
    func = written(ROWS, BODY.format(**parts))
    found = op_info(func)
    assert isinstance(found, OpInfo) and found.name == f"relax.{name}"
    assert not difference(func, found.name, found.attrs, found.operands)


@pytest.mark.parametrize("why", NEAR)
def test_parts_that_do_not_touch_are_no_operator(why: str) -> None:
    parts, change = NEAR[why]
    func = written(ROWS, BODY.format(**{**parts, **change}))
    assert not isinstance(op_info(func), OpInfo)
    for c in lift(func).outputs:
        assert compare(c, real(c.body))


HALVES = """
s = T.alloc_buffer((2,), scope="local")
m = T.alloc_buffer((1,), scope="local")
for i in range(3):
    for h in range(2):
        s[h] = T.float32(0)
        for k in range(4):
            s[h] += x[i, h * 4 + k]
    m[0] = (s[0] + {second}) / T.float32(8)
    out[i] = T.float32(0)
    for k in range(8):
        out[i] += (x[i, k] - m[0]) * (x[i, k] - m[0]) * T.float32(0.125)
"""


@pytest.mark.parametrize(("second", "name"), [("s[1]", "relax.variance"), ("s[0]", "")])
def test_a_total_in_parts_is_squared_as_one(second: str, name: str) -> None:
    func = written("x 3,8; out 3", HALVES.format(second=second))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    for c in lift(func).outputs:
        assert compare(c, real(c.body))


PRODUCT = """
s = T.alloc_buffer((2,), scope="local")
for i in range(3):
    for h in range(2):
        s[h] = T.float32(1)
        for k in range({count}):
            s[h] = s[h] * x[i, h * {stride} + k]
    out[i] = s[0] {op} s[1]
"""


@pytest.mark.parametrize(
    ("count", "stride", "op", "name"),
    [(4, 4, "*", "relax.prod"), (4, 3, "*", ""), (3, 4, "*", ""), (4, 4, "+", "")],
)
def test_products_in_halves(count: int, stride: int, op: str, name: str) -> None:
    func = written("x 3,8; out 3", PRODUCT.format(count=count, stride=stride, op=op))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name


OTHER = """
s = T.alloc_buffer((1,), scope="local")
m = T.alloc_buffer((1,), scope="local")
for i in range(2):
    s[0] = T.float32(0)
    m[0] = T.float32(0)
    for j, k in T.grid(3, 8):
        s[0] += x[i, j, k]
    for j in range(3):
        m[0] = {step}
    out[i] = s[0] + m[0]
"""


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("m[0] + x[i, j, 8]", "relax.sum"),
        ("T.max(m[0], x[i, j, 8])", ""),
        ("T.min(m[0], x[i, j, 8])", ""),
    ],
)
def test_an_extreme_from_zero_does_not_continue_a_sum(step: str, name: str) -> None:
    func = written("x 2,3,9; out 2", OTHER.format(step=step))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    for c in lift(func).outputs:
        assert compare(c, real(c.body))
