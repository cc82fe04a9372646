"""Terms as text."""

from __future__ import annotations

import pytest

from opinfo.analysis.terms.condition_terms import ge0, parts
from opinfo.analysis.terms.scalar import call, extreme
from opinfo.analysis.terms.show import reason, show
from opinfo.analysis.terms.term import (
    Const,
    Fold,
    Reduce,
    TensorVar,
    Term,
    Var,
    as_int,
    const,
    fold,
    fresh,
    integer,
    load,
    raw_call,
    raw_reduce,
    size,
    variable,
)
from opinfo.analysis.terms.traversal import free, substitute


def test_a_reason_numbers_loop_variables_by_their_mention() -> None:
    """The variables' own numbers depend on what a process did before."""

    n = size("n")  # terms are written in the order in which they were made

    def goal() -> Term:
        one, two = (as_int(fresh(integer(9), "q")) for _ in range(2))
        return ge0(one * 2 - two * 3 + n)

    first, second = goal(), goal()
    assert show(first) != show(second)
    assert reason(first) == reason(second)
    assert "q0" in reason(first) and "q1" in reason(first) and "n" in reason(first)


@pytest.mark.parametrize(
    ("op", "a", "b", "dtype", "value"),
    [
        ("mul", 7.0, 2.0, "float16", 14.0),
        ("add", 2047.0, 1.0, "float16", 2048.0),
        ("sub", 3.0, 5.0, "bfloat16", -2.0),
    ],
)
def test_whole_literals_are_folded(op: str, a: float, b: float, dtype: str, value: float) -> None:
    assert call(op, (const(a, dtype), const(b, dtype)), dtype) is const(value, dtype)


@pytest.mark.parametrize(
    ("op", "a", "b", "dtype"),
    [
        ("mul", 0.5, 2.0, "float16"),  # exact too, but a general test needs its dtype's format
        ("mul", 2047.0, 3.0, "float16"),
        ("add", 2048.0, 1.0, "float16"),
        ("mul", 0.0, -3.0, "float32"),
        ("sub", 3.0, 3.0, "float32"),
        ("div", 6.0, 3.0, "float32"),
    ],
)
def test_other_literals_are_not(op: str, a: float, b: float, dtype: str) -> None:
    assert not isinstance(call(op, (const(a, dtype), const(b, dtype)), dtype), Const)


def _bound(kind: str, axis: Var, body: Term) -> Term:
    if kind == "sum":
        return raw_reduce("add", (axis,), body, const(0.0, "float32"), "float32")
    state = raw_call("state", (), "float32")
    update = call("add", (state, body), "float32")
    return fold(axis, (state,), (const(0.0, "float32"),), (update,))


@pytest.mark.parametrize("kind", ["sum", "loop"])
def test_a_variable_that_is_put_in_is_not_bound(kind: str) -> None:
    """``Σ_r x[y, r]`` at ``y = r``, an r of around it, is ``Σ_q x[r, q]``, not a trace."""
    extent = integer(4)
    x = TensorVar("x", (extent, extent), "float32", 0)
    y, r = variable("axis", "y0", extent), variable("reduce", "r0_0", extent)
    inner = _bound(kind, r, load(x, (as_int(y), as_int(r))))
    out = substitute(inner, {y: as_int(r)})
    assert isinstance(out, (Reduce, Fold)) and free(out) == {r}
    axis = out.axes[0] if isinstance(out, Reduce) else out.axis
    assert axis is not r
    at_r = _bound(kind, axis, load(x, (as_int(r), as_int(axis))))
    assert out is at_r


@pytest.mark.parametrize(("count", "conditions"), [(2, 4), (12, 1)])
def test_a_sum_of_many_minima_stays_one_condition(count: int, conditions: int) -> None:
    """Each would double the number of conditions."""
    total = integer(-5)
    for _ in range(count):
        ends = (as_int(fresh(integer(n))) for n in (50, 60))
        total = total + as_int(extreme("min", *ends))
    assert len(parts(ge0(total))) == conditions
