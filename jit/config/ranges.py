"""Translate ranges of a Relax function's dimensions to spans of a called PrimFunc's dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...byoc.dims.span import Span
from ...byoc.schedule.nest.symbolic_sizes import SizeBounds, SymbolicSizes
from ..arguments.boundary import Range
from .sites import CallSite

#: Where schedules for ranges change. Up to `FEW` rows fit one tile; from `MANY` rows on, columns
#: that collide in the cache are packed, because enough tiles of rows reuse them. In between, the
#: range gains nothing (measured by `benchmarks/shapes/ranges.py`).
FEW, MANY = 4, 72


def parts(declared: Range) -> tuple[Range, ...]:
    """Split a declared range into the parts that have a better schedule than the generic one.

    >>> [str(r) for r in parts(Range(1, 512))]
    ['1 to 4', '72 to 512']
    >>> [str(r) for r in parts(Range(8, 512, 8))]
    ['8 to 71, a multiple of 8', '72 to 512, a multiple of 8']
    """
    if declared.high is None and declared.low <= 1 and declared.multiple_of == 1:
        return ()
    by = declared.multiple_of
    cuts = ((1, FEW), (FEW + 1, MANY - 1), (MANY, None))
    candidates = [_part(declared, low, high) for low, high in cuts if low != FEW + 1 or by > 1]
    return tuple(r for r in candidates if r is not None)


def _part(declared: Range, low: int, high: int | None) -> Range | None:
    by = declared.multiple_of
    low = -(-max(low, declared.low) // by) * by
    if declared.high is not None:
        high = declared.high if high is None else min(high, declared.high)
    return None if high is not None and high < low else Range(low, high, by)


def spans_at(site: CallSite, ranges: Mapping[str, Sequence[Range]]) -> tuple[dict[str, Span], ...]:
    """Return the spans of the site's dimensions for each combination of ranges.

    Dimensions without ranges are unrestricted. A combination that restricts nothing is dropped.
    """
    free = [v for v in site.free() if ranges.get(site.called(v))]
    out: list[dict[str, Span]] = []
    for chosen in itertools.product(*(ranges[site.called(v)] for v in free)):
        sizes = SymbolicSizes(*((v, span(r)) for v, r in zip(free, chosen, strict=True)))
        spans = {s.name: _span(sizes.of(e)) for s, e in zip(site.symbols, site.dims, strict=True)}
        if spans not in out and any(s != Span() for s in spans.values()):
            out.append(spans)
    return tuple(out)


def span(declared: Range) -> Span:
    """Convert a range to a span, which excludes 0."""
    return Span(max(1, declared.low), declared.high, declared.multiple_of)


def _span(bounds: SizeBounds) -> Span:
    low = max(1, bounds.low)
    return Span(low, None if bounds.high is None else max(low, bounds.high), bounds.multiple)
