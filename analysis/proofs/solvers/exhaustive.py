"""Proof by evaluation at every point of a small literal domain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from ...terms.condition_terms import disj, negate
from ...terms.evaluate import Unevaluable, evaluate
from ...terms.interval import fits_int64
from ...terms.term import Term, Var
from ...terms.traversal import free, tensors
from .verdict import Verdict

POINTS = 1 << 14


def domain(variables: Iterable[Var]) -> dict[Var, int] | None:
    """Return the literal extent of each variable, or None if one has none."""
    out = {}
    for var in sorted(variables, key=lambda var: var.uid):
        extent = None if var.extent is None else var.extent.const
        if extent is None:
            return None
        out[var] = extent
    return out


def grid(extents: Mapping[Var, int]) -> dict[Var, np.ndarray]:
    """Return every point of a box as an open grid: axis ``k`` of the arrays is variable k."""
    n = len(extents)
    return {
        var: np.arange(extent, dtype=np.int64).reshape(-1, *[1] * (n - 1 - k))
        for k, (var, extent) in enumerate(extents.items())
    }


def exhaustive(goal: Term, premise: Term) -> Verdict:
    """Check ``premise -> goal`` at every point of a literal domain of at most `POINTS` points."""
    claim = disj(negate(premise), goal)
    extents = domain(free(goal) | free(premise))
    if extents is None or tensors(goal) or tensors(premise):
        return Verdict("unknown", "enumeration", reason="the domain is not literal")
    if math.prod(extents.values()) > POINTS:
        return Verdict("unknown", "enumeration", reason=f"more than {POINTS} points")
    if not (fits_int64(goal) and fits_int64(premise)):
        return Verdict("unknown", "enumeration", reason="values may exceed 64 bits")
    try:
        holds = np.broadcast_to(evaluate(claim, grid(extents)), tuple(extents.values()))
    except Unevaluable as error:
        return Verdict("unknown", "enumeration", reason=str(error))
    if holds.all():
        return Verdict("proved", "enumeration")
    point = np.unravel_index(int(np.argmin(holds)), holds.shape)
    counterexample = {v: int(x) for v, x in zip(extents, point, strict=True)}
    return Verdict("refuted", "enumeration", counterexample=MappingProxyType(counterexample))


def is_counterexample(goal: Term, premise: Term, point: Mapping[Var, int]) -> bool:
    """Return whether the point is in the domain and satisfies ``premise`` but not ``goal``."""
    try:
        for var in point:
            if var.kind == "size" and point[var] < 1:
                return False
            if var.extent is not None and not 0 <= point[var] < int(evaluate(var.extent, point)):
                return False
        return bool(evaluate(premise, point)) and not bool(evaluate(goal, point))
    except (Unevaluable, OverflowError):
        return False
