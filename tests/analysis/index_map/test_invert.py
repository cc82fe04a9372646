"""Every map of the corpus: its verdict, and its inverse at every coordinate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tvm
from tvm.tirx import IndexMap

from opinfo.analysis import invert

from .corpus import corpus
from .map_case import Case
from .oracle import as_python, images, predicate_as_python, truth, undone_everywhere

CASES = corpus()
SMALL = 1 << 14
SIZES = ({"n": 1, "m": 1}, {"n": 2, "m": 3}, {"n": 3, "m": 2}, {"n": 5, "m": 7})


def _small(case: Case) -> bool:
    return not case.sizes and math.prod(case.build()[1]) <= SMALL


def test_the_corpus_is_large_and_names_are_unique() -> None:
    assert len(CASES) >= 300
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [c for c in CASES if _small(c)], ids=str)
def test_the_corpus_is_true(case: Case) -> None:
    assert truth(*case.build()) == case.truth


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_verdict_is_the_truth(case: Case) -> None:
    fn, shape = case.build(*(tvm.tirx.Var(s, "int64") for s in case.sizes))
    assert invert(fn, shape).verdict == case.truth


@pytest.mark.parametrize("case", [c for c in CASES if _small(c)], ids=str)
def test_inverse_at_every_coordinate(case: Case) -> None:
    fn, shape = case.build()
    found = invert(fn, shape)
    if case.truth == "not_injective":
        assert found.inverse is None
        _assert_collides(found, fn)
        return
    inverse = found.inverse
    assert inverse is not None
    back = as_python(inverse) if isinstance(inverse, IndexMap) else inverse
    assert undone_everywhere(back, fn, shape) is None


def _assert_collides(found: Any, fn: Any) -> None:
    one, two = found.counterexample.points
    assert one != two
    assert tuple(fn(*one)) == tuple(fn(*two)) == found.counterexample.images[0]


@pytest.mark.parametrize("case", [c for c in CASES if c.sizes], ids=str)
def test_symbolic_inverse_at_every_coordinate_of_instances(case: Case) -> None:
    variables = {s: tvm.tirx.Var(s, "int64") for s in case.sizes}
    found = invert(*case.build(*variables.values()))
    if case.truth == "not_injective":
        sizes = dict(found.counterexample.sizes) if found.counterexample else {}
        _assert_collides(found, case.build(*(sizes[s] for s in case.sizes))[0])
        return
    for sizes in SIZES:
        fn, shape = case.build(*(sizes[s] for s in case.sizes))
        assert undone_everywhere(as_python(found.inverse, sizes), fn, shape) is None


@pytest.mark.parametrize(
    "case", [c for c in CASES if _small(c) and c.truth == "injective"], ids=str
)
def test_padding_marks_exactly_the_places_that_are_not_hit(case: Case) -> None:
    fn, shape = case.build()
    found = invert(fn, shape)
    if found.padding is None:  # a table, or an image with negative coordinates
        assert found.method == "table" or found.counterexample is not None
        return
    assert isinstance(found.inverse, IndexMap) and found.out_shape is not None
    names = [str(v) for v in found.inverse.initial_indices]
    empty = predicate_as_python(found.padding, names)
    hit = {tuple(int(k) for k in row) for row in images(fn, shape)}
    for place in _places(found.out_shape):
        assert bool(empty(*place)) == (place not in hit)


def _places(box: tuple[int, ...]) -> list[tuple[int, ...]]:
    import itertools

    return list(itertools.product(*map(range, box)))


@pytest.mark.parametrize("case", CASES[::7], ids=str)
def test_check_discharges_every_obligation_with_another_engine(case: Case) -> None:
    fn, shape = case.build(*(tvm.tirx.Var(s, "int64") for s in case.sizes))
    found = invert(fn, shape)
    proved = [o for o in found.obligations if o.verdict == "proved"]
    again = found.check()
    assert [o.name for o in again] == [o.name for o in proved]
    assert all(o.verdict == "proved" for o in again), again
    assert all(a.engine != o.engine for a, o in zip(again, proved, strict=True))
