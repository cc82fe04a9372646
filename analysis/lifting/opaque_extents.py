"""Extents whose variables occur in no other way, such as ``(w - 1) // 8 + 1`` where ``w`` does not.

Such an extent is a size like any other: what holds for every size holds for this one. The quotient
in it then stands for the size, less what is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from .linear_extents import OPAQUE, linear_form


@dataclass(frozen=True)
class OpaqueExtent:
    """An extent ``sign * inner + literal`` that is taken for a size.

    Attributes:
        extent: The extent as it is written.
        place: Its place in the sequence of extents.
        inner: The quotient, minimum or maximum in it.
        sign: 1 or -1.
        literal: What is added.
    """

    extent: Any
    place: int
    inner: Any
    sign: int
    literal: int


def opaque_extents(extents: Sequence[Any], bound: Sequence[Any]) -> list[OpaqueExtent]:
    """Return the extents to take for sizes.

    None are taken if that would lose a relation: if a variable of one occurs elsewhere too.

    Args:
        extents: The extents of all buffers that are neither literals nor variables.
        bound: The variables that are an extent on their own.
    """
    chosen: list[OpaqueExtent] = []
    inners: list[Any] = []
    for k in sorted(range(len(extents)), key=lambda k: (len(text := str(extents[k])), text)):
        opaque = _opaque(extents[k], k) if _outside(extents[k], inners) else None
        if opaque is not None:
            chosen.append(opaque)
            inners.append(opaque.inner)
    hidden = [var for inner in inners for var in tirx.analysis.undefined_vars(inner)]
    seen = [*bound, *(var for extent in extents for var in _outside(extent, inners))]
    places = [var.__chandle__() for var in hidden]
    alone = len(set(places)) == len(places)
    return chosen if alone and not {var.__chandle__() for var in seen} & set(places) else []


def _opaque(extent: Any, place: int) -> OpaqueExtent | None:
    form = linear_form(extent, opaque=True)
    if form is None:
        return None
    terms = form.coefficients.items()
    if len(terms) != 1 or terms[0][1] not in (1, -1) or type(terms[0][0]).__name__ not in OPAQUE:
        return None
    return OpaqueExtent(extent, place, *terms[0], form.literal)


def _outside(expr: Any, inners: Sequence[Any]) -> list[Any]:
    """Return the variables of an expression outside of these parts of it."""
    if any(tvm_ffi.structural_equal(expr, inner) for inner in inners):
        return []
    children = [getattr(expr, k) for k in ("a", "b", "value") if hasattr(expr, k)]
    if isinstance(expr, tirx.IntImm):
        return []
    if not children:
        return list(tirx.analysis.undefined_vars(expr))
    return [var for child in children for var in _outside(child, inners)]
