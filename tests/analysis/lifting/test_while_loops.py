"""While loops over a state are lifted, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import from_source

from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Load, Var

from ...common.interpret import interpret

WHILE = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((7,), "float32"), out: T.Buffer((7,), "float32")):
    s = T.alloc_buffer((1,))
    n = T.alloc_buffer((1,), "int32")
    for i in range(7):
        s[0] = x[i]
        n[0] = i
"""
#: Bodies of that loop; whether they are lifted.
WHILES = {
    "two states": (
        True,
        """
        while n[0] < 5:
            s[0] = s[0] * T.float32(0.5)
            n[0] = n[0] + 2
        out[i] = s[0]
""",
    ),
    "never": (
        True,
        """
        while n[0] > 7:
            n[0] = n[0] + 1
        out[i] = s[0]
""",
    ),
    "counted from a number": (
        True,
        """
        n[0] = 1
        while n[0] <= i:
            s[0] = s[0] + x[n[0]] * T.float32(0.5)
            n[0] = n[0] + 2
        out[i] = s[0] + T.Cast("float32", n[0])
""",
    ),
    "counted, no iteration": (
        True,
        """
        n[0] = 4
        while 3 > n[0]:
            s[0] = x[0]
            n[0] = n[0] + 1
        out[i] = s[0] + T.Cast("float32", n[0])
""",
    ),
    "counted by another number each time": (
        True,
        """
        n[0] = 0
        while n[0] < 5:
            s[0] = s[0] + x[i]
            n[0] = n[0] + n[0] + 1
        out[i] = s[0]
""",
    ),
    "a condition that does not change": (
        False,
        """
        while i > 7:
            n[0] = n[0] + 1
        out[i] = s[0]
""",
    ),
    "stores on its way": (
        False,
        """
        out[i] = s[0]
        while n[0] < 6:
            n[0] = n[0] + 1
            out[n[0]] = s[0]
""",
    ),
    "a condition bound before": (
        False,
        """
        for j in range(1):
            v: T.let[T.int32] = n[0]
            while v < n[0] + 2:
                n[0] = n[0] - 1
        out[i] = T.Cast("float32", n[0])
""",
    ),
    "stores in two places": (
        False,
        """
        while n[0] < 5:
            if n[0] < 3:
                n[0] = 3
            if n[0] > 2:
                n[0] = n[0] + 1
        out[i] = s[0]
""",
    ),
}


@pytest.mark.parametrize("name", WHILES)
def test_while_loops_are_lifted_rightly_or_refused(name: str) -> None:
    lifts, body = WHILES[name]
    func = from_source(WHILE + body)
    try:
        (c,) = lift(func).outputs
    except Unliftable:
        assert not lifts
        return
    assert lifts
    value = np.linspace(-2.0, 1.5, 7)
    (expected,) = interpret(func, [value])
    (axis,) = (a.atom for a in c.axes)
    assert isinstance(axis, Var)
    found = evaluate(c.body, {axis: np.arange(7)}, lambda t, i: value[i[0]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_counter_with_another_name_is_not_counted() -> None:
    """A store through a view makes five iterations three."""
    body = """
        v = T.decl_buffer((1,), "int32", data={}.data)
        v[0] = 0
        n[0] = 0
        while n[0] < 5:
            s[0] = s[0] + x[i]
            v[0] = v[0] + 1
            n[0] = n[0] + 1
        out[i] = s[0]
"""
    head = WHILE + '        q = T.alloc_buffer((1,), "int32")'
    assert "forever" in repr(lift(from_source(head + body.format("n"))))
    assert "forever" not in repr(lift(from_source(head + body.format("q"))))


SHARED_COUNTER = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((64, 7), "float32"), out: T.Buffer((64, 7), "float32")):
    n = T.alloc_buffer((1,), "int32", scope="{scope}")
    for i in {loop}:
        n[0] = 0
        while n[0] < 7:
            out[i, n[0]] = x[i, n[0]]
            n[0] = n[0] + 1
"""


@pytest.mark.parametrize(
    ("loop", "scope", "lifts"),
    [
        ("range(64)", "global", True),
        ("T.parallel(64)", "global", False),
        ('T.thread_binding(64, "threadIdx.x")', "local", True),
        ('T.thread_binding(64, "threadIdx.x")', "shared", False),
        ('T.thread_binding(64, "threadIdx.x")', "global", False),
    ],
)
def test_concurrent_iterations_do_not_share_a_counter(loop: str, scope: str, lifts: bool) -> None:
    func = from_source(SHARED_COUNTER.format(loop=loop, scope=scope))
    if lifts:
        assert lift(func).outputs
        return
    with pytest.raises(Unliftable):
        lift(func)


def test_a_counter_is_read_at_a_computed_index() -> None:
    """The counter is ``n[j]`` for j = 0, and not the 2 that was stored before."""
    body = """
    n[0] = 2
    for a in range(1):
        n[0] = 0
        while n[0] < 7:
            for j in range(2):
                if j < 1:
                    out[n[0]] = x[n[j]]
            n[0] = n[0] + 1
"""
    (c,) = lift(from_source(WHILE + body)).outputs
    assert isinstance(c.body, Load) and c.body.indices == c.axes
