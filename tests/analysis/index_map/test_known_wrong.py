"""Maps for which TVM itself gives wrong answers."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm.tirx import IndexMap

from opinfo.analysis import invert, prove_identity

from .oracle import as_python, undone_everywhere

WRONG_INVERSES = [
    (lambda i: ((i + 3) % 10,), (10,)),
    (lambda b: ((9 - b) // 5, (9 - b) % 5), (10,)),
    (lambda n, h, w, c: (n, (h + 5) % 8, (w + 5) % 8, c), (1, 8, 8, 2)),
]


@pytest.mark.parametrize(("fn", "shape"), WRONG_INVERSES)
def test_inverses_that_tvm_gets_wrong(fn: Any, shape: tuple[int, ...]) -> None:
    found = invert(fn, shape)
    assert found.verdict == "bijective"
    assert undone_everywhere(as_python(found.inverse), fn, shape) is None


@pytest.mark.parametrize(("fn", "shape"), WRONG_INVERSES[:2])
def test_the_inverse_of_tvm_is_refuted(fn: Any, shape: tuple[int, ...]) -> None:
    forward = IndexMap.from_func(fn)
    found = prove_identity(forward, forward.inverse(list(shape)), shape)
    assert found.verdict == "refuted"
    assert found.counterexample is not None


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda i: (i % 4,), (16,)),
        (lambda i: (i // 4,), (16,)),
        (lambda i: (i // 8, i % 4), (32,)),
    ],
)
def test_maps_that_non_surjective_inverse_accepts(fn: Any, shape: tuple[int, ...]) -> None:
    found = invert(fn, shape)
    assert found.verdict == "not_injective"
    one, two = found.counterexample.points  # type: ignore[union-attr]
    assert one != two and fn(*one) == fn(*two)


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda i: (i + 3,), (10,)),
        (lambda y, r: (y * 4 + r,), (14, 3)),
        (lambda i: (i * 2,), (16,)),
    ],
)
def test_maps_that_are_not_onto(fn: Any, shape: tuple[int, ...]) -> None:
    assert invert(fn, shape).verdict == "injective"


def test_reversal_that_map_shape_refuses() -> None:
    found = invert(lambda i: (9 - i,), (10,))
    assert (found.verdict, found.out_shape) == ("bijective", (10,))


@pytest.mark.parametrize(
    ("forward", "back", "shape"),
    [
        (lambda i, j: (j, i), lambda i, j: (i, j), (4, 4)),
        (lambda k: (k // 4, k % 4), lambda i, j: (j * 4 + i,), (16,)),
        (
            lambda n, c, h, w: (n, c // 4, h, w, c % 4),
            lambda n, c, h, w, i: (n, i * 2 + c, h, w),
            (1, 8, 2, 2),
        ),
    ],
)
def test_pairs_that_cancel_by_shape_only(forward: Any, back: Any, shape: tuple[int, ...]) -> None:
    found = prove_identity(forward, back, shape)
    assert found.verdict == "refuted"
    point = found.counterexample.points[0]  # type: ignore[union-attr]
    assert tuple(back(*forward(*point))) != point


def test_a_narrowing_cast_is_not_the_identity() -> None:
    i = tvm.tirx.Var("i", "int32")
    narrow = tvm.tirx.Cast("int32", tvm.tirx.Cast("int8", i * 2))
    found = invert(IndexMap([i], [narrow], None), (200,))
    assert found.verdict in ("not_injective", "unknown")
