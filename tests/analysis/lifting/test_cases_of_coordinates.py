"""Branches by a coordinate: remainders of unrolled loops, and borders with sums of their own."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, op_info

from ..foreign.execute import difference
from ..foreign.unseen3.programs import written

UNROLLED = "x 12; out 12"
BRANCH = """
for i in range(12):
    if i >= 2 and (i + 1) % 3 == 0:
        out[i] = T.exp(x[(i + 1) // 3 * 3 - {a}])
    else:
        if i >= {low} and (i + 2) % 3 == 0:
            out[i] = T.exp(x[(i + 2) // 3 * 3 - {b}])
        else:
            out[i] = T.exp(x[i // 3 * 3 + {c}])
"""


@pytest.mark.parametrize(
    ("a", "b", "c", "low", "name"),
    [
        (1, 2, 0, 1, "relax.exp"),
        (2, 2, 0, 1, ""),
        (1, 3, 0, 1, ""),
        (1, 2, 1, 1, ""),
        (1, 2, 0, 2, ""),
    ],
)
def test_branches_of_remainders(a: int, b: int, c: int, low: int, name: str) -> None:
    func = written(UNROLLED, BRANCH.format(a=a, b=b, c=c, low=low))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    if isinstance(found, OpInfo):
        assert not difference(func, found.name, found.attrs, found.operands)


BORDERS = """
for o in range(3):
    out[0, o, 0] = T.float32(0)
    for c, k in T.grid(2, 2):
        out[0, o, 0] += x[0, c, k{first}] * w[o, c, k + 1]
    for t in range(1, 8):
        out[0, o, t] = T.float32(0)
        for c, k in T.grid(2, 3):
            out[0, o, t] += x[0, c, t + k - 1] * w[o, c, k]
    out[0, o, 8] = T.float32({start})
    for c, k in T.grid(2, {count}):
        out[0, o, 8] += x[0, c, k + 7] * w[o, c, k{last}]
"""


@pytest.mark.parametrize(
    ("first", "start", "count", "last", "name"),
    [
        ("", 0, 2, "", "relax.nn.conv1d"),
        (" + 1", 0, 2, "", ""),
        ("", 1, 2, "", ""),
        ("", 0, 1, "", ""),
        ("", 0, 2, " + 1", ""),
    ],
)
def test_borders_with_sums_of_their_own(
    first: str, start: int, count: int, last: str, name: str
) -> None:
    text = BORDERS.format(first=first, start=start, count=count, last=last)
    func = written("x 1,2,9; w 3,2,3; out 1,3,9", text)
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    if isinstance(found, OpInfo):
        assert not difference(func, found.name, found.attrs, found.operands)
