"""Sums in real arithmetic: relative to a running value, and of one value."""

from __future__ import annotations

import pytest

from opinfo.analysis import lift
from opinfo.analysis.real import real

from ..foreign.case import script
from ..foreign.unseen3.programs import symbolic

ONLINE = """
m = T.alloc_buffer((1,))
p = T.alloc_buffer((1,))
s = T.alloc_buffer((1,))
for i in range(3):
    m[0] = T.float32({start})
    s[0] = T.float32(0)
    for k in range(4):
        p[0] = m[0]
        m[0] = {new}
        s[0] = s[0] * T.exp(p[0] - m[0]) + T.exp(x[i, k] - m[0])
    out[i] = s[0]
"""
LOW, INF = "-3.4028234663852886e+38", '"inf"'
X, BELOW = "x[i, k]", 'T.float32("-inf")'
MASKED = f"T.if_then_else({{}}, {X}, {BELOW})"
LATE = MASKED.format("k >= 1")


@pytest.mark.parametrize(
    ("start", "new", "defined"),
    [
        (LOW, f"T.max(m[0], {X})", True),
        ('"-inf"', f"T.max(m[0], {X})", True),
        (LOW, f"T.max(m[0], {LATE})", True),
        (LOW, f"T.max(m[0], {MASKED.format('i >= k')})", True),
        ('"-inf"', f"T.max(m[0], {LATE})", False),  # -inf - -inf at first
        ('"-inf"', f"T.min(m[0], {X})", False),
        (INF, f"T.min(m[0], {X})", False),  # 0 * exp(inf)
        (INF, f"T.max(m[0], {X})", False),
        (LOW, f"T.min(m[0], {LATE})", False),
        (LOW, f"T.max(m[0], T.float32(-1) * {LATE})", False),
    ],
)
def test_running_values_are_defined(start: str, new: str, defined: bool) -> None:
    (c,) = lift(script("x 3,4; out 3", ONLINE.format(start=start, new=new))()).outputs
    form = repr(real(c.body))
    assert ("fold" not in form) is defined, form


@pytest.mark.parametrize(("extent", "multiplied"), [("n", True), ("n - 4", False)])
def test_a_sum_of_one_value_is_a_multiple_of_it(extent: str, multiplied: bool) -> None:
    """A loop of ``n - 4`` iterations has none for n = 3; a multiple would be negative."""
    body = f"out[0] = T.float32(0)\nfor k in range({extent}):\n    out[0] += x[0]"
    (c,) = lift(symbolic("x n; out 1", body)()).outputs
    assert ("cast" in repr(real(c.body))) is multiplied
