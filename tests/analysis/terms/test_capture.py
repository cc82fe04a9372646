"""Substitution in terms that bind the variable which is replaced."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis import lift
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.term import (
    Reduce,
    TensorVar,
    as_int,
    const,
    fold,
    fresh,
    integer,
    load,
    raw_call,
    raw_reduce,
)
from opinfo.analysis.terms.traversal import substitute

from ..foreign.unseen3.programs import program

X = TensorVar("x", (integer(12),), "float32", 0)
K, B, J = fresh(integer(4)), fresh(integer(3)), fresh(integer(4))
ZERO = const(0.0, "float32")


def _values(term: object) -> float:
    data = np.arange(12, dtype=np.float32) ** 2
    return float(evaluate(term, {J: np.asarray(2)}, lambda _, i: data[i[0]]))  # type: ignore[arg-type]


def test_the_axis_of_a_reduction_is_not_replaced() -> None:
    body = load(X, (as_int(B) * 4 + as_int(K),))
    total = raw_reduce("add", (K,), body, ZERO, "float32")
    moved = substitute(total, {K: as_int(J), B: integer(1)})
    assert isinstance(moved, Reduce)
    assert _values(moved) == 16 + 25 + 36 + 49


def test_the_axis_of_a_fold_is_not_replaced() -> None:
    state = raw_call("state", (), "float32")
    element = load(X, (as_int(B) * 4 + as_int(K),))
    loop = fold(K, (state,), (ZERO,), (raw_call("add", (state, element), "float32"),))
    assert _values(substitute(loop, {K: as_int(J), B: integer(1)})) == 16 + 25 + 36 + 49


@pytest.mark.parametrize("blocks, size", [(3, 4), (2, 6), (4, 3)])
def test_a_total_carried_through_blocks_is_lifted_as_it_is_computed(blocks: int, size: int) -> None:
    case = program(
        "carried",
        "x 12; out 12",
        f"""
        c = T.alloc_buffer((1,), scope="local")
        c[0] = T.float32(0)
        for b in range({blocks}):
            for k in range({size}):
                c[0] = c[0] + x[b * {size} + k]
                out[b * {size} + k] = c[0]
        """,
    )
    (output,) = lift(case.build()).outputs
    data = np.arange(12, dtype=np.float32) ** 2
    place = {output.axes[0].atom: np.arange(12)}
    got = evaluate(output.body, place, lambda _, i: data[i[0]])  # type: ignore[arg-type]
    assert got.tolist() == np.cumsum(data).tolist()
