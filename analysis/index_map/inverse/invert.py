"""Invert an index map, with proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.tirx import IndexMap

from ..engines.engines import POINTS
from ..maps.to_terms import ExtentScope, MapLike, Unsupported, convert, extents, index_map
from .certificate import InverseCertificate
from .deduced import certify_by_deduction
from .enumerated import certify_by_enumeration


def invert(
    index_map: MapLike,
    shape: Sequence[Any],
    *,
    out_shape: Sequence[Any] | None = None,
    predicate: Any = None,
    timeout_ms: int = 2000,
) -> InverseCertificate:
    """Decide whether an index map is one-to-one on a box, and derive its inverse.

    Args:
        index_map: A `tirx.IndexMap` or a function of its axes.
        shape: The extents of the box: integers or TVM expressions. Every variable that is not an
            axis is a symbolic extent, at least 1.
        out_shape: The box that the map should be onto; by default the smallest one that starts at
            0.
        predicate: Restricts the domain: an expression over the map's variables, or a function of
            the axes.
        timeout_ms: Milliseconds that each query to Z3 may take.

    Returns:
        A certificate with the verdict, the inverse or a counterexample, and the box.

    Raises:
        TypeError: An argument has the wrong type, or an expression is not an integer.
        ValueError: The arguments do not fit together, or an extent is not positive.

    >>> invert(lambda i: ((i + 3) % 10,), [10]).inverse
    T.index_map(lambda y0: ((y0 + T.int64(7)) % T.int64(10),))
    """
    scope = ExtentScope()
    shape = tuple(shape)
    try:
        converted = convert(index_map, shape, predicate, scope)
        box = None if out_shape is None else extents(tuple(out_shape), scope, "out_shape")
    except Unsupported as error:
        return _unknown(index_map, shape, str(error))
    if box is not None and len(box) != len(converted.results):
        raise ValueError(f"out_shape: expected {len(converted.results)} extents, got {len(box)}")
    literal = converted.literal_shape
    literal_box = None if box is None else tuple(e.const for e in box if e.const is not None)
    try:
        if literal is not None and math.prod(literal) <= POINTS and _is_literal(box):
            return certify_by_enumeration(converted, literal, literal_box)
        return certify_by_deduction(converted, shape, box, timeout_ms)
    except Unsupported as error:
        return _unknown(converted.source, shape, str(error))


def _is_literal(box: Any) -> bool:
    return box is None or all(e.const is not None for e in box)


def _unknown(source: MapLike, shape: tuple[Any, ...], reason: str) -> InverseCertificate:
    as_map = source if isinstance(source, IndexMap) else index_map(source, len(shape))
    return InverseCertificate("unknown", as_map, shape, reason=reason)
