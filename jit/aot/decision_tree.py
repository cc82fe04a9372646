"""Select a variant by shape in one expression: a binary search along each dimension in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx

from ...byoc.dims.span import Span

Spans = Sequence[Mapping[str, Span]]


def decision(spans: Spans, dims: Mapping[str, Any]) -> Any:
    """Return an expression for the index of the first variant that serves the shape.

    The index is ``len(spans)`` if no variant does. ``dims`` maps names of dimensions to
    expressions, in the order of the search.

    Before: n == 8 → 0, n <= 16 and n % 4 == 0 → 1
    After:  (0 if n == 8 else 1 if n % 4 == 0 else 2) if n < 17 else 2, comparisons halving the line
    """
    return _choice(list(range(len(spans))), spans, list(dims.items()), len(spans))


def _choice(candidates: list[int], spans: Spans, dims: list[tuple[str, Any]], fallback: int) -> Any:
    """Choose among the candidate variants by the remaining dimensions."""
    if not candidates:
        return _number(fallback)
    if not dims:
        return _number(candidates[0])
    (name, dim), *later_dims = dims
    edges = _edges([spans[k][name] for k in candidates if name in spans[k]])
    leaves: list[tuple[int | None, list[int]]] = []  # first value of an interval, its variants
    for start in (None, *edges):
        serving = [k for k in candidates if _serves(spans[k].get(name), start)]
        if not leaves or leaves[-1][1] != serving:
            leaves.append((start, serving))
    return _bisected(leaves, name, dim, spans, later_dims, fallback)


def _bisected(leaves: list[tuple[int | None, list[int]]], name: str, dim: Any, spans: Spans,
              later_dims: list[tuple[str, Any]], fallback: int) -> Any:  # fmt: skip
    """Choose an interval of one dimension by bisection."""
    if len(leaves) == 1:
        return _divided(leaves[0][1], name, dim, spans, later_dims, fallback)
    middle = len(leaves) // 2
    start = leaves[middle][0]
    assert start is not None
    low, high = (_bisected(part, name, dim, spans, later_dims, fallback)
                 for part in (leaves[:middle], leaves[middle:]))  # fmt: skip
    return tirx.if_then_else(dim < tirx.IntImm(dim.ty.dtype, start), low, high)


def _divided(
    candidates: list[int],
    name: str,
    dim: Any,
    spans: Spans,
    later_dims: list[tuple[str, Any]],
    fallback: int,
) -> Any:
    """Test divisibility last, because most variants do not require it."""
    steps = {spans[k][name].multiple for k in candidates if name in spans[k]} - {1}
    if not steps:
        return _choice(candidates, spans, later_dims, fallback)
    step = max(steps)
    others = [k for k in candidates if name not in spans[k] or spans[k][name].multiple != step]
    plain = [dict(s) for s in spans]
    for k in set(candidates) - set(others):
        plain[k][name] = Span(plain[k][name].low, plain[k][name].high)
    yes = _divided(candidates, name, dim, plain, later_dims, fallback)
    no = _divided(others, name, dim, spans, later_dims, fallback)
    return tirx.if_then_else(tirx.EQ(tirx.floormod(dim, tirx.IntImm(dim.ty.dtype, step)),
                                     tirx.IntImm(dim.ty.dtype, 0)), yes, no)  # fmt: skip


def _edges(spans: Sequence[Span]) -> list[int]:
    """Return the values at which the set of serving variants may change."""
    return sorted({e for s in spans for e in (s.low, *(() if s.high is None else (s.high + 1,)))})


def _serves(span: Span | None, start: int | None) -> bool:
    """Return whether a variant serves the interval from `start`; None precedes all edges."""
    if span is None:
        return True
    return start is not None and span.low <= start and (span.high is None or start <= span.high)


def _number(value: int) -> Any:
    return tirx.IntImm("int32", value)


def branches(choice: Any, bodies: Sequence[Any]) -> Any:
    """Return statements that run ``bodies[choice]``, by bisection; each body occurs once."""
    return _halved(choice, bodies, 0)


def _halved(choice: Any, bodies: Sequence[Any], first: int) -> Any:
    if len(bodies) == 1:
        return bodies[0]
    middle = len(bodies) // 2
    return tirx.IfThenElse(
        choice < _number(first + middle),
        _halved(choice, bodies[:middle], first),
        _halved(choice, bodies[middle:], first + middle),
    )


__all__ = ["branches", "decision"]
