"""Compose index maps, and prove how two of them relate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from tvm.tirx import IndexMap

from ..proofs.solvers.verdict import Verdict
from ..terms.condition_terms import conj, eq0
from ..terms.term import Int, Var, as_int, variable
from ..terms.traversal import free
from .engines.engines import LITERAL, POINTS, SYMBOLIC, EngineAnswer, discharge
from .engines.goal import Goal
from .engines.image import Image, image
from .engines.instances import instances, points_at
from .maps.counterexample import Counterexample
from .maps.from_terms import to_tvm
from .maps.numeric import Array, evaluate
from .maps.to_terms import ExtentScope, Map, MapLike, Unsupported, convert, index_map

Sides = Callable[[Image, dict[Any, Array]], tuple[Sequence[Array], Sequence[Array]]]
"""Returns the values of both sides at the points of an image, for given sizes."""


@dataclass(frozen=True)
class Comparison:
    """``proved``, ``refuted`` with a point at which the two sides differ, or ``unknown``."""

    verdict: Literal["proved", "refuted", "unknown"]
    statement: str
    counterexample: Counterexample | None = None
    obligations: tuple[EngineAnswer, ...] = ()
    reason: str = ""
    goal: Goal | None = field(default=None, repr=False)

    def check(self, *, timeout_ms: int = 5000) -> tuple[EngineAnswer, ...]:
        """Return the proved obligations again, each judged by another engine."""
        if self.goal is None or self.verdict != "proved":
            return ()
        engines = ("numpy", "z3-bv", "z3-int", "tvm", "normal-form")
        return tuple(
            discharge(self.goal, [e for e in engines if e != answer.engine], timeout_ms)[0]
            for answer in self.obligations
        )


def compose(outer: MapLike, inner: MapLike, shape: Sequence[Any]) -> IndexMap:
    """Return ``x -> outer(inner(x))`` over a box, simplified with its extents.

    Args:
        outer: A `tirx.IndexMap` or a function of its axes.
        inner: The same; it is applied first.
        shape: The extents of the box that `inner` is applied to.

    Returns:
        A `tirx.IndexMap` over the axes of `inner`.

    Raises:
        ValueError: The number of axes of `outer` differs from the number of results of `inner`.
        Unsupported: The analysis does not support an expression.

    >>> compose(lambda a, b: (a * 4 + b,), lambda i: (i // 4, i % 4), [12])
    T.index_map(lambda i: (i,))
    """
    scope = ExtentScope()
    first = convert(inner, shape, scope=scope, what="inner")
    second = index_map(outer, len(first.results), "outer")
    env = dict(zip(second.initial_indices, first.results, strict=True))
    results = [as_int(scope.read(e, env)) for e in second.final_indices]
    leaves = dict(zip(first.axes, first.source.initial_indices, strict=True))
    leaves.update({s: v for v, s in scope.sizes.items()})
    final = [to_tvm(r, leaves, first.dtype) for r in results]
    return IndexMap(first.source.initial_indices, final, None)


def prove_equal(
    f: MapLike,
    g: MapLike,
    shape: Sequence[Any],
    *,
    predicate: Any = None,
    timeout_ms: int = 2000,
) -> Comparison:
    """Decide whether ``f(x) == g(x)`` for every x in a box.

    Args:
        f: A `tirx.IndexMap` or a function of its axes.
        g: The same.
        shape: The extents of the box: integers or TVM expressions.
        predicate: Restricts the domain: an expression over the map's variables, or a function of
            the axes.
        timeout_ms: Milliseconds that each query to Z3 may take.

    Returns:
        Proved, refuted with a counterexample, or unknown.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The maps differ in their number of results, or do not fit the box.
    """
    scope = ExtentScope()
    try:
        first = convert(f, shape, predicate, scope, "f")
        second = convert(g, shape, None, scope, "g")
    except Unsupported as error:
        return Comparison("unknown", "f(x) = g(x)", reason=str(error))
    if len(first.results) != len(second.results):
        raise ValueError(
            f"prove_equal: expected maps with equally many results, got {len(first.results)} "
            f"and {len(second.results)}"
        )
    lets = _lets(first)
    claim = conj(*(eq0(as_int(v) - r) for (v, _), r in zip(lets, second.results, strict=True)))
    goal = Goal("equal", "f(x) = g(x)", claim, first.predicate, lets)

    def sides(points: Image, sizes: dict[Any, Array]) -> tuple[Sequence[Array], Sequence[Array]]:
        axes = dict(zip(second.source.initial_indices, points.points, strict=True))
        return points.values, _values(second.source, {**axes, **sizes})

    return _compare(_with_sizes(first, scope, goal), goal, sides, timeout_ms)


def prove_identity(
    f: MapLike,
    g: MapLike,
    shape: Sequence[Any],
    *,
    predicate: Any = None,
    timeout_ms: int = 2000,
) -> Comparison:
    """Decide whether ``g(f(x)) == x`` for every x in a box.

    Args:
        f: A `tirx.IndexMap` or a function of its axes.
        g: The same.
        shape: The extents of the box: integers or TVM expressions.
        predicate: Restricts the domain: an expression over the map's variables, or a function of
            the axes.
        timeout_ms: Milliseconds that each query to Z3 may take.

    Returns:
        Proved, refuted with a counterexample, or unknown.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The number of axes of `g` differs from the number of results of `f`.
    """
    scope = ExtentScope()
    try:
        first = convert(f, shape, predicate, scope, "f")
        outer = index_map(g, len(first.results), "g")
        lets = _lets(first)
        env = {v: as_int(t) for v, (t, _) in zip(outer.initial_indices, lets, strict=True)}
        results = [as_int(scope.read(e, env)) for e in outer.final_indices]
    except Unsupported as error:
        return Comparison("unknown", "g(f(x)) = x", reason=str(error))
    if len(results) != len(first.axes):
        raise ValueError(
            f"prove_identity: expected {len(first.axes)} results of g, the rank of the shape, "
            f"got {len(results)}"
        )
    claim = conj(*(eq0(r - first.coordinate(k)) for k, r in enumerate(results)))
    goal = Goal("identity", "g(f(x)) = x", claim, first.predicate, lets)

    def sides(points: Image, sizes: dict[Any, Array]) -> tuple[Sequence[Array], Sequence[Array]]:
        axes = dict(zip(outer.initial_indices, points.values, strict=True))
        return _values(outer, {**axes, **sizes}), points.points

    return _compare(_with_sizes(first, scope, goal), goal, sides, timeout_ms)


def _lets(first: Map) -> tuple[tuple[Var, Int], ...]:
    return tuple((variable("free", f"f{k}"), r) for k, r in enumerate(first.results))


def _values(tvm_map: IndexMap, env: Mapping[Any, Array]) -> tuple[Array, ...]:
    return tuple(evaluate(e, env) for e in tvm_map.final_indices)


def _with_sizes(first: Map, scope: ExtentScope, goal: Goal) -> Map:
    """The first map with the sizes of both sides."""
    used = frozenset[Var]().union(*(free(e) for e in first.extents), goal.variables)
    return replace(first, sizes=tuple((s, v) for v, s in scope.sizes.items() if s in used))


def _compare(first: Map, goal: Goal, sides: Sides, timeout_ms: int) -> Comparison:
    start = time.perf_counter()
    shape = first.literal_shape
    if shape is not None and math.prod(shape) <= POINTS:
        try:
            return _enumerate(image(first, shape), goal, sides, start)
        except Unsupported as error:
            return Comparison("unknown", goal.statement, reason=str(error))
    answer, verdict = discharge(goal, ("normal-form",), timeout_ms)
    if not verdict.proved:
        for sizes, points in instances(first) if shape is None else ():
            example = _difference(points, sides, sizes)
            if example is not None:
                ms = (time.perf_counter() - start) * 1e3
                refuted = EngineAnswer(goal.name, goal.statement, "refuted", "numpy", ms)
                return Comparison("refuted", goal.statement, example, (refuted,), goal=goal)
        engines = (SYMBOLIC if shape is None else LITERAL)[1:]
        answer, verdict = discharge(goal, engines, timeout_ms)
    example = _point(first, sides, verdict) if verdict.refuted else None
    return Comparison(verdict.status, goal.statement, example, (answer,), verdict.reason, goal)


def _enumerate(points: Image, goal: Goal, sides: Sides, start: float) -> Comparison:
    example = _difference(points, sides, {})
    status: Literal["proved", "refuted"] = "proved" if example is None else "refuted"
    ms = (time.perf_counter() - start) * 1e3
    answer = EngineAnswer(goal.name, goal.statement, status, "numpy", ms)
    return Comparison(status, goal.statement, example, (answer,), goal=goal)


def _difference(points: Image, sides: Sides, sizes: dict[Any, int]) -> Counterexample | None:
    left, right = sides(points, {v: np.asarray(k) for v, k in sizes.items()})
    shape = (points.count,)
    columns = [
        (np.broadcast_to(a, shape), np.broadcast_to(b, shape))
        for a, b in zip(left, right, strict=True)
    ]
    for a, b in columns:
        differing = np.flatnonzero(a != b)
        if differing.size:
            k = int(differing[0])
            point = tuple(int(p[k]) for p in points.points)
            images = tuple(tuple(int(c[side][k]) for c in columns) for side in (0, 1))
            named_sizes = tuple((v.name, k) for v, k in sizes.items())
            return Counterexample("different", (point,), images, named_sizes)
    return None


def _point(first: Map, sides: Sides, verdict: Verdict) -> Counterexample | None:
    """The point of a refutation, with its images under the original expressions."""
    values = dict(verdict.counterexample or {})
    points = np.array([[values.get(a, 0)] for a in first.axes], dtype=np.int64)
    sizes = {v: values.get(s, 1) for s, v in first.sizes}
    return _difference(points_at(first, points, sizes), sides, sizes)
