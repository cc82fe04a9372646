"""``prove``: right by enumeration wherever it answers, and silent where it cannot know."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opinfo.analysis.lifting.tir.operations import truncdiv
from opinfo.analysis.proofs.equal import prove_equal
from opinfo.analysis.proofs.pairing import Different
from opinfo.analysis.proofs.prove import prove
from opinfo.analysis.proofs.solvers.smt import prove_int
from opinfo.analysis.terms.condition_terms import conj, disj, eq0, ge0, ite, negate
from opinfo.analysis.terms.evaluate import evaluate
from opinfo.analysis.terms.integer import floordiv, floormod
from opinfo.analysis.terms.scalar import extreme
from opinfo.analysis.terms.term import (
    TRUE,
    ZERO,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    const,
    fresh,
    integer,
    load,
    raw_call,
    size,
    var,
    variable,
)
from opinfo.analysis.terms.traversal import free

N = size("n")
P, Q = var("loop", "i", N), var("loop", "j", integer(7))
K = var("free", "k")


@pytest.mark.parametrize(
    ("goal", "assume"),
    [
        (ge0(N * 7 - 1 - (P * 7 + Q)), ()),
        (eq0(floordiv(P * 7 + Q, integer(7)) - P), ()),
        (ge0(K - 3), (ge0(K - 5),)),
        (ge0(K - 3), (disj(ge0(K - 6), ge0(K - 9)),)),
        (eq0(floordiv(P + Q, N)), (ge0(N - 20), ge0(N - P - 8))),
        (eq0(K - 4), (ge0(K - 4), ge0(integer(4) - K))),
        (negate(eq0(K)), (ge0(K - 1),)),
        (eq0(as_int(extreme("min", K, integer(3))) - 3), (ge0(K - 3),)),
        (ge0(floormod(K, N)), ()),
        (ge0(as_int(ite(ge0(K), K, -K))), ()),
    ],
)
def test_what_follows_is_proved(goal: Term, assume: tuple[Term, ...]) -> None:
    verdict = prove(goal, assume)
    assert verdict.proved, verdict
    assert prove(negate(goal), assume).status != "proved"


@pytest.mark.parametrize(
    ("goal", "assume"),
    [
        (ge0(K - 3), (ge0(K - 2),)),
        (ge0(Q - 3), ()),
        (ge0(N - 2), ()),
        (eq0(floordiv(P + Q, N)), ()),
        (eq0(P), (ge0(N - 3),)),
    ],
)
def test_a_refutation_has_a_point_that_refutes(goal: Term, assume: tuple[Term, ...]) -> None:
    verdict = prove(goal, assume)
    assert verdict.refuted and verdict.counterexample is not None
    point = verdict.counterexample
    assert not bool(evaluate(goal, point))
    assert all(bool(evaluate(a, point)) for a in assume)
    for v, x in point.items():
        low = 1 if v.kind == "size" else 0 if v.extent is not None else x
        assert x >= low
        assert v.extent is None or x < int(evaluate(v.extent, point))


def test_equal_indices_read_equal_elements() -> None:
    t = TensorVar("t", (N,), "int64")
    one, two = (as_int(load(t, (p,))) for p in (K, floordiv(K * 2, integer(2)) + P - P))
    assert prove(eq0(one - two)).proved
    other = as_int(load(t, (P,)))
    assert prove(eq0(one - other), (eq0(K - P),)).proved
    assert prove(eq0(one - other)).status == "unknown"


def test_an_opaque_operation_is_never_refuted() -> None:
    f = as_int(raw_call("mystery", (K,), "int"))
    assert prove(ge0(f)).status == "unknown"
    assert prove(ge0(f - 1), (ge0(f - 2),)).proved


def test_min_and_max_of_floats_are_different_functions() -> None:
    x, y = (const(v, "float32") for v in (1.0, 2.0))
    low, high = (
        raw_call("lt", (raw_call(op, (x, y), "float32"), x), "bool") for op in ("min", "max")
    )
    assert prove(low, (high,)).status == "unknown"


def test_contradictory_assumptions_prove_anything() -> None:
    assert prove(ge0(-N), (ge0(K), ge0(-K - 1))).proved


def test_a_verdict_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match=r"ask for \.proved"):
        bool(prove(TRUE))


def test_goals_are_boolean() -> None:
    with pytest.raises(TypeError, match="boolean"):
        prove(K)


# ---------------------------------------------------------------------------- by enumeration

A, B = (as_int(v) for v in (var("axis", "a", integer(5)), var("axis", "b", integer(6))))


def _integers() -> st.SearchStrategy[Int]:
    leaves = st.one_of(st.sampled_from([A, B]), st.integers(-4, 9).map(integer))

    def larger(inner: st.SearchStrategy[Int]) -> st.SearchStrategy[Int]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: p[0] - p[1]),
            st.tuples(inner, st.integers(-3, 3)).map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 5)).map(lambda p: floordiv(p[0], integer(p[1]))),
            st.tuples(inner, st.integers(1, 5)).map(lambda p: floormod(p[0], integer(p[1]))),
            pair.map(lambda p: as_int(extreme("min", *p))),
            pair.map(lambda p: as_int(extreme("max", *p))),
        )

    return st.recursive(leaves, larger, max_leaves=5)


def _conditions() -> st.SearchStrategy[Term]:
    atoms = st.one_of(_integers().map(ge0), _integers().map(eq0))
    return st.recursive(
        atoms,
        lambda c: st.one_of(
            st.tuples(c, c).map(lambda p: conj(*p)),
            st.tuples(c, c).map(lambda p: disj(*p)),
            c.map(negate),
        ),
        max_leaves=3,
    )


def _holds(goal: Term, given_: Term) -> bool:
    variables: list[Var] = sorted(free(goal) | free(given_), key=lambda v: v.name)
    extents = [int(evaluate(v.extent, {})) for v in variables if v.extent is not None]
    for values in itertools.product(*map(range, extents)):
        env: dict[Var, Any] = dict(zip(variables, values, strict=True))
        if bool(evaluate(given_, env)) and not bool(evaluate(goal, env)):
            return False
    return True


@given(_conditions(), _conditions())
@settings(max_examples=150, deadline=None)
def test_literal_goals_are_decided_rightly(goal: Term, given_: Term) -> None:
    want = "proved" if _holds(goal, given_) else "refuted"
    assert prove(goal, (given_,)).status == want


@given(_conditions(), _conditions())
@settings(max_examples=60, deadline=None)
def test_z3_agrees_with_enumeration(goal: Term, given_: Term) -> None:
    verdict = prove_int(goal, given_, 2000)
    if verdict.status != "unknown":
        assert verdict.proved == _holds(goal, given_)


def test_clamping_is_the_same_in_either_order_if_the_interval_is_not_empty() -> None:
    v = load(TensorVar("v", (), "float32"), ())

    def clamped(outer: str, inner: str, low: float, high: float) -> Term:
        bounds = {"max": const(low, "float32"), "min": const(high, "float32")}
        return raw_call(
            outer, (raw_call(inner, (v, bounds[inner]), "float32"), bounds[outer]), "float32"
        )

    proof = prove_equal(clamped("max", "min", 0.0, 6.0), clamped("min", "max", 0.0, 6.0))
    assert proof.ordered
    for other in ((0.0, 5.0), (1.0, 6.0)):
        with pytest.raises(Different):
            prove_equal(clamped("max", "min", 0.0, 6.0), clamped("min", "max", *other))
    with pytest.raises(Different):
        prove_equal(clamped("max", "min", 6.0, 0.0), clamped("min", "max", 6.0, 0.0))


def test_a_division_inside_a_division_is_not_itself() -> None:
    """They shared a variable once, and so everything about them was proved."""
    n = as_int(variable("size", "n"))
    y = as_int(fresh(n, "y"))
    inner = extreme("max", ZERO, truncdiv(integer(3) - y * 4, integer(2)))
    outer = truncdiv(n + 2 - as_int(inner) * 2, integer(2))
    assert not prove(eq0(outer - 2)).proved
    assert not prove(eq0(outer - as_int(inner) - 1)).proved
