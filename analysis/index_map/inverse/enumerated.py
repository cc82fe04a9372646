"""Literal domains of moderate size: the map is evaluated at every point.

Verdict and inverse are judged by the caller's expressions and the returned ones; terms only serve
to derive the inverse.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import tvm
from tvm.tirx import IndexMap

from ...terms.condition_terms import negate
from ...terms.term import Int, Var, integer, variable
from ..engines.engines import EngineAnswer
from ..engines.image import Image, collision, image
from ..maps.counterexample import Counterexample
from ..maps.from_terms import to_tvm
from ..maps.numeric import evaluate
from ..maps.to_terms import Map, Unsupported
from .by_cases import hit
from .candidate_inverses import candidates
from .certificate import InverseCertificate, InverseProblem
from .inverse_table import InverseTable, table

BOX = 1 << 20
Box = tuple[int, ...]


def certify_by_enumeration(index_map: Map, shape: Box, out_shape: Box | None) -> InverseCertificate:
    """Return the certificate of a map over a literal box; raise `Unsupported` if it cannot."""
    start = time.perf_counter()
    points = image(index_map, shape)
    if points.count == 0:
        raise Unsupported("the predicate holds at no point")
    pair = collision(points)
    if pair is not None:
        return InverseCertificate(
            "not_injective",
            index_map.source,
            shape,
            out_shape,
            counterexample=_example("collision", points, *pair),
            obligations=(_record("collision", "f(x) = f(z)", start),),
            problem=InverseProblem(index_map),
        )
    return _injective(index_map, shape, points, out_shape, start)


def _injective(
    index_map: Map, shape: Box, points: Image, out_shape: Box | None, start: float
) -> InverseCertificate:
    ends = [(int(v.min()), int(v.max())) for v in points.values]
    box = out_shape or tuple(max(hi, 0) + 1 for _, hi in ends)
    outside = _out_of_range(points, box)
    onto = outside is None and points.count == math.prod(box)
    ys = tuple(
        variable("axis", f"y{k}", integer(max(extent, hi + 1)))
        if lo >= 0
        else variable("free", f"y{k}")
        for k, (extent, (lo, hi)) in enumerate(zip(box, ends, strict=True))
    )
    method, results, inverse = find_inverse(index_map, ys, points, shape)
    problem = InverseProblem(index_map, ys, tuple(map(integer, box)), results)
    answers = [
        _record(
            "injective" if results is None else "left_inverse", _CLAIMS[results is None], start
        ),
    ]
    if outside is None:
        answers.append(_record("range", "0 <= f(x) < out_shape", start))
    if onto:
        name = (
            "volume" if index_map.source_predicate is None or results is None else "right_inverse"
        )
        answers.append(_record(name, "every place of the box is hit", start))
    hidden = onto or outside is not None or not isinstance(inverse, IndexMap)
    return InverseCertificate(
        "bijective" if onto else "injective",
        index_map.source,
        shape,
        box,
        inverse,
        None if hidden or results is None else _padding(problem, points, box, inverse),
        outside,
        tuple(answers),
        method,
        problem=problem,
    )


_CLAIMS = {False: "g(f(x)) = x", True: "f(x) = f(z) implies x = z"}


def find_inverse(
    index_map: Map, ys: tuple[Var, ...], points: Image, shape: Box
) -> tuple[str, tuple[Int, ...] | None, IndexMap | InverseTable | None]:
    """Return the first candidate that is right at every point, else a table."""
    for method, results in candidates(index_map, ys):
        try:
            inverse = index_map_of(results, ys, index_map)
            env = dict(zip(inverse.initial_indices, points.values, strict=True))
            right = all(
                np.array_equal(np.broadcast_to(evaluate(expr, env), column.shape), column)
                for expr, column in zip(inverse.final_indices, points.points, strict=True)
            )
        except Unsupported:
            continue
        if right:
            return method, results, inverse
    return "table", None, table(points, shape)


def index_map_of(results: tuple[Int, ...], ys: tuple[Var, ...], index_map: Map) -> IndexMap:
    """Return inverse results as a TVM map of ``y0, y1, ...``."""
    variables = [tvm.tirx.Var(f"y{k}", index_map.dtype) for k in range(len(ys))]
    leaves = {**dict(zip(ys, variables, strict=True)), **dict(index_map.sizes)}
    return IndexMap(variables, [to_tvm(t, leaves, index_map.dtype) for t in results], None)


def padding_of(problem: InverseProblem, inverse: IndexMap) -> Any:
    """Return the predicate of places to which no point is mapped, over the inverse's variables."""
    index_map, ys, results = problem.map, problem.ys, problem.inverse
    assert results is not None
    leaves = {**dict(zip(ys, inverse.initial_indices, strict=True)), **dict(index_map.sizes)}
    return to_tvm(
        negate(hit(index_map, ys, results, index_map.results, index_map.predicate)),
        leaves,
        index_map.dtype,
    )


def _padding(problem: InverseProblem, points: Image, box: Box, inverse: Any) -> Any:
    """The padding predicate, checked at every place of the box if that is not too large."""
    try:
        predicate = padding_of(problem, inverse)
        if math.prod(box) > BOX:
            return predicate
        grids = np.indices(box, dtype=np.int64, sparse=True)
        empty = evaluate(predicate, dict(zip(inverse.initial_indices, grids, strict=True)))
    except Unsupported:
        return None
    empty = np.broadcast_to(empty, box)
    right = math.prod(box) - int(empty.sum()) == points.count and not empty[points.values].any()
    return predicate if right else None


def _out_of_range(points: Image, box: Box) -> Counterexample | None:
    for column, extent in zip(points.values, box, strict=True):
        misses = np.flatnonzero((column < 0) | (column >= extent))
        if misses.size:
            return _example("out_of_range", points, int(misses[0]))
    return None


def _example(kind: Any, points: Image, *positions: int) -> Counterexample:
    return Counterexample(
        kind,
        tuple(tuple(int(a[k]) for a in points.points) for k in positions),
        tuple(tuple(int(a[k]) for a in points.values) for k in positions),
    )


def _record(name: str, statement: str, start: float) -> EngineAnswer:
    return EngineAnswer(name, statement, "proved", "numpy", (time.perf_counter() - start) * 1e3)
