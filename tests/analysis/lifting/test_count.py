"""Counting loops: in closed form, and equal to what they count."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import from_source

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Reduce, Var
from opinfo.analysis.terms.traversal import subterms

from ...common.interpret import interpret

_LOOP = """
@T.prim_func
def main(out: T.Buffer((9,), "int32")):
    for i in range(9):
        out[i] = T.int32({start})
        for a, b in T.grid({a}, {b}):
            if {guard}:
                out[i] += {value}
"""
#: Guards over i, a, b; extents of a and b; what is added.
CLOSED = {
    "between two ends": ("1 <= i + a and i + a < 6", 3, 1, "1"),
    "in steps": ("1 <= i + 2 * a and i + 3 * b < 11", 4, 3, "1"),
    "downwards": ("2 * a <= i and 7 <= i + 2 * b", 5, 4, "2"),
    "never": ("i + a < 0 and b < 2", 3, 3, "1"),
    "both ways, and a guard without an axis": (
        "i < 5 and 3 <= a + i and 3 * a <= i + 4",
        6,
        1,
        "1",
    ),
    "a number that depends on the element": ("i <= a + b * 0 and b < 2", 8, 3, "i - 4"),
    "every other one": ("a % 2 == 0", 4, 1, "1"),
    "all of them": ("0 <= a", 4, 3, "1"),
}
#: Guards that are not a product of intervals, and a summand that is not one number.
OPEN = {
    "a triangle": ("a + b <= i", 4, 4, "1"),
    "every third one, from another place each": ("(a + i) % 3 == 0", 4, 1, "1"),
    "the iterations themselves": ("a <= i", 4, 1, "a"),
}


def _run(guard: str, a: int, b: int, value: str) -> bool:
    """Whether the lifted form is closed; it has to be equal in any case."""
    func = from_source(_LOOP.format(start=5, guard=guard, a=a, b=b, value=value))
    (c,) = lift(func).outputs
    (expected,) = interpret(func, [])
    axes = [x.atom for x in c.axes]
    found = evaluate(c.body, {v: np.arange(9) for v in axes if isinstance(v, Var)})
    np.testing.assert_array_equal(np.broadcast_to(found, (9,)), expected)
    return not any(isinstance(s, Reduce) for s in subterms(c.body))


@pytest.mark.parametrize("name", CLOSED)
def test_counts_are_closed_and_right(name: str) -> None:
    assert _run(*CLOSED[name])


@pytest.mark.parametrize("name", OPEN)
def test_other_sums_are_as_they_were(name: str) -> None:
    assert not _run(*OPEN[name])


_AVERAGE = """
@T.prim_func
def main(x: T.Buffer((1, 3, 8), "float32"), out: T.Buffer((1, 3, 8), "float32")):
    k = T.alloc_buffer((8,), "int32")
    s = T.alloc_buffer((3, 8), "float32")
    for c, i in T.grid(3, 8):
        s[c, i] = T.float32(0)
        k[i] = 0
        for a in range(3):
            if 0 < i + a and i + a < 9:
                s[c, i] += x[0, c, i + a - 1]
            if {counted}:
                k[i] += 1
        out[0, c, i] = s[c, i] / T.Cast("float32", k[i])
"""


def test_an_average_of_elements_that_a_loop_counts_is_a_pool() -> None:
    info = op_info(from_source(_AVERAGE.format(counted="0 < i + a and i + a < 9")))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.attrs["padding"]) == ("relax.nn.avg_pool1d", (1, 1))
    assert not info.attrs["count_include_pad"]


@pytest.mark.parametrize("counted", ["0 < i + a and i + a < 8", "1 < i + a and i + a < 9"])
def test_an_average_of_fewer_is_none(counted: str) -> None:
    assert isinstance(op_info(from_source(_AVERAGE.format(counted=counted))), Refusal)
