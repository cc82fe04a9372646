"""Laws of the algebra on random maps."""

from __future__ import annotations

import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm.tirx import IndexMap

from opinfo.analysis import compose, invert, prove_equal, prove_identity
from opinfo.analysis.index_map.inverse.deduced import certify_by_deduction
from opinfo.analysis.index_map.maps.to_terms import convert

from . import fuzz, symbolic_fuzz
from .oracle import as_map, as_python, images, truth, undone_everywhere

SEEDS = st.integers(0, 1 << 30)
INSTANCES = ({"n": 1, "m": 4}, {"n": 2, "m": 3}, {"n": 4, "m": 2})


@pytest.mark.parametrize("seed", range(10_000, 10_200))
def test_random_bijections_are_inverted(seed: int) -> None:
    m = fuzz.bijective(seed)
    found = invert(as_map(m.fn, len(m.shape)), m.shape)
    assert found.verdict == "bijective", m.name
    inverse = found.inverse
    back = as_python(inverse) if isinstance(inverse, IndexMap) else inverse
    assert back is not None
    assert undone_everywhere(back, m.fn, m.shape) is None, m.name


@pytest.mark.parametrize("seed", range(20_000, 20_150))
def test_mutants_get_the_verdict_of_enumeration(seed: int) -> None:
    m = fuzz.mutant(seed)
    found = invert(as_map(m.fn, len(m.shape)), m.shape)
    assert found.verdict == truth(m.fn, m.shape), m.name


@pytest.mark.parametrize("seed", range(30_000, 30_060))
def test_random_symbolic_bijections(seed: int) -> None:
    m = symbolic_fuzz.symbolic(seed)
    fn, shape = m.build({s: tvm.tirx.Var(s, "int64") for s in "nm"})
    found = invert(as_map(fn, len(shape)), shape)
    assert found.verdict in ("bijective", "injective", "unknown")
    for sizes in INSTANCES if isinstance(found.inverse, IndexMap) else ():
        here, box = m.build(dict(sizes))
        assert undone_everywhere(as_python(found.inverse, sizes), here, box) is None, m.name


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_an_inverse_undoes_its_map_and_is_undone_by_it(seed: int) -> None:
    m = fuzz.bijective(seed)
    forward = as_map(m.fn, len(m.shape))
    found = invert(forward, m.shape)
    if not isinstance(found.inverse, IndexMap):
        return
    assert prove_identity(forward, found.inverse, m.shape).verdict == "proved"
    assert prove_identity(found.inverse, forward, found.out_shape or ()).verdict == "proved"


@given(SEEDS, SEEDS)
@settings(max_examples=30, deadline=None)
def test_compose_is_composition(one: int, two: int) -> None:
    m = fuzz.bijective(one)
    first = as_map(m.fn, len(m.shape))
    then = fuzz.bijective(two)
    if len(m.steps[-1].extents if m.steps else m.shape) != len(then.shape):
        return
    second = as_map(then.fn, len(then.shape))
    both = as_python(compose(second, first, m.shape))
    expected = images(lambda *x: then.fn(*m.fn(*x)), m.shape)
    for row, x in zip(expected, images(lambda *x: x, m.shape), strict=True):
        assert tuple(both(*map(int, x))) == tuple(row)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_map_equals_itself_composed_with_the_identity(seed: int) -> None:
    m = fuzz.bijective(seed)
    forward = as_map(m.fn, len(m.shape))
    same = compose(forward, lambda *x: x, m.shape)
    assert prove_equal(forward, same, m.shape).verdict == "proved"


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_the_inverse_of_the_inverse_is_the_map(seed: int) -> None:
    m = fuzz.bijective(seed)
    forward = as_map(m.fn, len(m.shape))
    found = invert(forward, m.shape)
    if not isinstance(found.inverse, IndexMap):
        return
    twice = invert(found.inverse, found.out_shape or ())
    assert twice.verdict == "bijective"
    if isinstance(twice.inverse, IndexMap):
        assert prove_equal(forward, twice.inverse, m.shape).verdict == "proved"


@pytest.mark.parametrize("seed", range(40_000, 40_060))
def test_deduction_agrees_with_enumeration(seed: int) -> None:
    """The way of large domains, taken on small ones."""
    m = fuzz.bijective(seed) if seed % 3 else fuzz.mutant(seed)
    found = certify_by_deduction(convert(as_map(m.fn, len(m.shape)), m.shape), m.shape, None, 2000)
    assert found.verdict in (truth(m.fn, m.shape), "unknown"), m.name
    if isinstance(found.inverse, IndexMap):
        assert undone_everywhere(as_python(found.inverse), m.fn, m.shape) is None, m.name
    if found.counterexample is not None and found.counterexample.kind == "collision":
        one, two = found.counterexample.points
        assert one != two and m.fn(*one) == m.fn(*two)
