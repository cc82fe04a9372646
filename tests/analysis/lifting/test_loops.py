"""Loops whose iterations see each other's writes: lifted right or refused, never wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import from_source

from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.proofs.equal import prove_equal
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import Fold, TensorVar, Var, as_int, integer, load
from opinfo.analysis.terms.traversal import map_loads, tensors

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((6,), "float32"), out: T.Buffer((6,), "float32")):
    s = T.alloc_buffer((1,))
    for j in range(6):
        out[j] = T.float32(1)
"""


def _lifted(body: str) -> str:
    return repr(lift(from_source(_HEAD + body)))


def test_update_in_one_iteration_is_counted_once() -> None:
    text = _lifted("""
    for i in range(6):
        if i == 3:
            out[0] = out[0] + x[i]
""")
    assert "x[r0_0] if r0_0 - 3 == 0 else 0.0" in text


@pytest.mark.parametrize(
    "body",
    [
        """
    for i in range(6):
        out[i] = T.float32(5)
        if i >= 2:
            out[0] = out[0] + x[i]
""",
        """
    for i in range(6):
        if i >= 2:
            out[0] = out[0] + x[i]
        out[5 - i] = T.float32(5)
""",
        """
    for i in range(6):
        if i < 2:
            out[0] = T.float32(7)
        if i >= 2:
            out[0] = out[0] + x[i]
""",
    ],
    ids=["reset by another store", "overwritten later", "reset twice"],
)
def test_other_stores_to_a_sum_are_refused(body: str) -> None:
    with pytest.raises(Unliftable):
        _lifted(body)


_SEARCH = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((2, 6), "float32"), out: T.Buffer((2,), "int64")):
    best = T.alloc_buffer((2,))
    where = T.alloc_buffer((2,), "int64")
    for i in range(2):
        where[i] = T.int64(-1)
        best[i] = T.float32(-1)
"""
_SEARCHES = {
    "branch": """
    for i, k in T.grid(2, 6):
        if x[i, k] > best[i]:
            best[i] = x[i, k]
            where[i] = T.Cast("int64", k)
""",
    "reduction outermost": """
    for k, i in T.grid(6, 2):
        if x[i, k] > best[i]:
            where[i] = T.Cast("int64", k)
            best[i] = x[i, k]
""",
    "split with a guard": """
    for ko, i, ki in T.grid(2, 2, 4):
        if ko * 4 + ki < 6:
            if x[i, ko * 4 + ki] > best[i]:
                best[i] = x[i, ko * 4 + ki]
                where[i] = T.Cast("int64", ko * 4 + ki)
""",
}
_COPY = """
    for i in range(2):
        out[i] = where[i]
"""


@pytest.mark.parametrize("loops", _SEARCHES.values(), ids=_SEARCHES)
def test_search_is_a_fold_that_finds_the_place(loops: str) -> None:
    lifted = lift(from_source(_SEARCH + loops + _COPY))
    (c,) = lifted.outputs
    fold = as_int(c.body).atom
    assert isinstance(fold, Fold) and fold.axis.extent is integer(6)
    data = np.random.default_rng(0).random((2, 6), np.float32)
    rows = c.axes[0].atom
    assert isinstance(rows, Var)
    found = evaluate(c.body, {rows: np.arange(2)}, lambda _, index: data[index])
    assert found.tolist() == data.argmax(1).tolist()


def test_searches_in_another_order_of_loops_are_equal() -> None:
    one, *others = (lift(from_source(_SEARCH + s + _COPY)) for s in _SEARCHES.values())
    given = {p.position: p for p in one.params if isinstance(p, TensorVar)}
    for other in others:
        (c,) = other.outputs
        moved = map_loads(c.body, tensors(c.body), lambda t, index: load(given[t.position], index))
        prove_equal(one.outputs[0].body, moved)


def test_a_value_of_the_previous_iteration_is_not_the_current_one() -> None:
    late, early = (
        lift(from_source(_SEARCH + _STEP.format(a=a, b=b) + _COPY)).outputs[0].body
        for a, b in (("where[i] + T.int64(1)", "best[i] + x[i, k]"), ("where[i]", "x[i, k]"))
    )
    assert repr(late) != repr(early)


_STEP = """
    for i, k in T.grid(2, 6):
        if best[i] < T.float32(3):
            where[i] = {a}
        best[i] = {b}
"""


STEPS = {
    "range(0, 6)": "T.serial(0, 12, step=2)",
    "range(2, 5)": "T.serial(4, 9, step=2)",  # the last iteration is at 8
    "range(1, 3)": "T.serial(2, 5, step=2)",
}


@pytest.mark.parametrize("plain", STEPS)
def test_a_loop_with_a_step_begins_where_it_does(plain: str) -> None:
    body = "\n    for i in {}:\n        out[{}] = x[{}] * x[{}]\n"
    half, every = ("i // 2", "5 - i // 2"), ("i", "5 - i")
    stepped = body.format(STEPS[plain], half[0], half[1], half[1])
    assert _lifted(stepped) == _lifted(body.format(plain, every[0], every[1], every[1]))


@pytest.mark.parametrize("step", ["0", "-1", "T.Cast('int32', x[0])"])
def test_other_steps_are_refused(step: str) -> None:
    with pytest.raises(Unliftable, match="step"):
        _lifted(f"\n    for i in T.serial(0, 6, step={step}):\n        out[i] = x[i]\n")
