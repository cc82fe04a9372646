"""Sums whose loop is unrolled, divided, cut off or guarded: the tensor expression of one loop."""

from __future__ import annotations

import pytest

from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable

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


ZERO_FILL = """
for y in range({size}):
    out[y] = T.float32(0)
"""
SCATTERED = (
    ZERO_FILL
    + """
for i in {loop}:
    for a in range(3):
        out[{element}] = out[{element}] + x[i] * w[a]
"""
)
GATHERED = (
    ZERO_FILL
    + """
for y, a in T.grid({size}, 3):
    if {hits} and 0 <= {source} and {source} < 5:
        out[y] += x[{source}] * w[a]
"""
)
#: The size of the result, the element that is added to, where it is hit, and the iteration.
SCATTERS = {
    "stride 1": (7, "i + a", "True", "(y - a)"),
    "stride 2": (11, "2 * i + a", "(y - a) % 2 == 0", "((y - a) // 2)"),
    "stride 3, dilated, from 1": (19, "3 * i + 2 * a + 1", "(y - 2 * a - 1) % 3 == 0",
                                  "((y - 2 * a - 1) // 3)"),
    "backwards": (11, "10 - 2 * i - a", "(10 - y - a) % 2 == 0", "((10 - y - a) // 2)"),
}  # fmt: skip


def _sum(body: str, size: int) -> str:
    return repr(lift(script(f"x 5; w 3; out {size}", body)()))


@pytest.mark.parametrize("name", SCATTERS)
def test_a_scattered_sum_is_the_sum_at_each_element(name: str) -> None:
    size, element, hits, source = SCATTERS[name]
    scattered = SCATTERED.format(size=size, loop="range(5)", element=element)
    gathered = GATHERED.format(size=size, hits=hits, source=source)
    assert _sum(scattered, size) == _sum(gathered, size)
    other = gathered.replace("w[a]", "w[2 - a]")
    assert _sum(scattered, size) != _sum(other, size)


@pytest.mark.parametrize(
    "loop",
    ["T.parallel(5)", "T.vectorized(5)", 'T.thread_binding(5, "threadIdx.x")'],
)
def test_a_scattered_sum_of_concurrent_iterations_is_a_race(loop: str) -> None:
    with pytest.raises(Unliftable):
        _sum(SCATTERED.format(size=11, loop=loop, element="2 * i + a"), 11)


@pytest.mark.parametrize(
    "change",
    [
        ("out[2 * i + a] + x", "out[2 * i + a] * T.float32(0.5) + x"),
        ("out[2 * i + a] + x", "out[10 - 2 * i - a] + x"),
        ("* w[a]", "* out[a]"),
    ],
)
def test_other_updates_are_not_scattered_sums(change: tuple[str, str]) -> None:
    body = SCATTERED.format(size=11, loop="range(5)", element="2 * i + a")
    with pytest.raises(Unliftable):
        _sum(body.replace(*change), 11)


FLOATS = """
for i in range(6):
    out[i] = T.float32({start})
    for a in range(3):
        if {inside}:
            out[i] += T.float32({number})
"""


@pytest.mark.parametrize(
    ("start", "inside", "number", "counted"),
    [
        (0, "1 <= i + a and i + a < 7", 1, True),
        (0, "1 <= i + a and i + a < 7", 0.1, False),  # each sum is rounded
        (1, "1 <= i + a and i + a < 7", 1, False),
        (0, "x[i + a] < T.float32(0)", 1, False),
    ],
)
def test_ones_are_counted_where_no_sum_is_rounded(
    start: int, inside: str, number: float, counted: bool
) -> None:
    body = FLOATS.format(start=start, inside=inside, number=number)
    text = repr(lift(script("x 8; out 6", body)()))
    assert ("add_{" not in text) is counted
    assert ("min(" in text) is counted


def test_axes_without_iterations_are_not_fused() -> None:
    """Of two extents of -2, neither loop has an iteration; their product is 4."""
    body = """
out[0] = T.float32(0)
for a, b in T.grid({0}, {0}):
    out[0] += x[a * {0} + b]
"""

    def lifted(extent: str) -> str:
        return repr(lift(symbolic("x p; y n; z m; out 1", body.format(extent))()))

    assert "r0_1" in lifted("T.min(n - 4, m - 4)")
    assert "r0_1" not in lifted("T.min(n, m)")
