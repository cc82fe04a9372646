"""Sums whose loop is unrolled, divided, cut off or guarded: the tensor expression of one loop."""

from __future__ import annotations

import pytest

from opinfo.analysis.lifting.lift import lift

from ..foreign.case import script
from ..foreign.unseen3.programs import symbolic

PLAIN = """
for i in range(3):
    out[i] = T.float32(0)
    for k in range({extent}):
        out[i] += x[i, k] * y[k]
"""
UNROLLED = """
for i in range(3):
    out[i] = T.float32(0)
    for k in range(2):
        out[i] += x[i, 4 * k] * y[4 * k] + x[i, 4 * k + 1] * y[4 * k + 1] + (
            x[i, 4 * k + 2] * y[4 * k + 2] + x[i, 4 * k + 3] * y[4 * k + 3])
    for k in range({tail}):
        out[i] += x[i, {start} + k] * y[{start} + k]
"""
CUT_OFF = """
for i in range(3):
    out[i] = T.float32(0)
for ko in range(3):
    for i, k in T.grid(3, T.min(4, {end} - ko * 4)):
        out[i] += x[i, ko * 4 + k] * y[ko * 4 + k]
"""
FILLED = """
s = T.alloc_buffer((4,))
t = T.alloc_buffer((4,))
for i in range(3):
    out[i] = T.float32(0)
    for ko in range(3):
        for k in range(4):
            s[k] = T.if_then_else(ko * 4 + k < {end}, x[i, ko * 4 + k], T.float32({fill}))
        for k in range(4):
            t[k] = T.if_then_else(ko * 4 + k < 10, y[ko * 4 + k], T.float32({fill}))
        for k in range(4):
            out[i] += s[k] * t[k]
"""
SYMBOLIC = """
for i in range(3):
    out[i] = T.float32(0)
    for q, r in T.grid(k // 4, 4):
        out[i] += x[i, q * 4 + r] * y[q * 4 + r]
    for r in range({rest}):
        out[i] += x[i, k // 4 * 4 + r] * y[k // 4 * 4 + r]
"""
SAME = [
    UNROLLED.format(tail=2, start=8),
    CUT_OFF.format(end=10),
    FILLED.format(end=10, fill=0),
]
OTHERS = [
    UNROLLED.format(tail=1, start=8),
    UNROLLED.format(tail=2, start=7),
    UNROLLED.format(tail=2, start=8).replace("y[4 * k + 3]", "y[4 * k + 2]"),
    CUT_OFF.format(end=9),
    FILLED.format(end=9, fill=0),
    FILLED.format(end=10, fill=1),
]


def _lifted(body: str, extent: str = "10") -> str:
    build = script if extent.isdigit() else symbolic
    return repr(lift(build(f"x 3,{extent}; y {extent}; out 3", body)()))


@pytest.mark.parametrize("body", SAME)
def test_parts_of_a_sum_are_one_sum(body: str) -> None:
    assert _lifted(body) == _lifted(PLAIN.format(extent=10))


@pytest.mark.parametrize("body", OTHERS)
def test_parts_of_other_sums_are_not(body: str) -> None:
    assert _lifted(body) != _lifted(PLAIN.format(extent=10))


PLAIN_SYMBOLIC = """
for i in range(3):
    out[i] = T.float32(0)
    for r in range(k):
        out[i] += x[i, r] * y[r]
"""
#: A rest of ``k - 4`` iterations has none for k = 3; it takes none away.
NEGATIVE = """
for i in range(3):
    out[i] = T.float32(0)
    for r in range(k - 4):
        out[i] += x[i, r] * y[r]
    for r in range(4):
        out[i] += x[i, k - 4 + r] * y[k - 4 + r]
"""


def test_a_symbolic_sum_and_its_rest() -> None:
    plain = _lifted(PLAIN_SYMBOLIC, "k")
    assert _lifted(SYMBOLIC.format(rest="k % 4"), "k") == plain
    assert _lifted(SYMBOLIC.format(rest="k % 2"), "k") != plain
    assert _lifted(NEGATIVE, "k") != plain
