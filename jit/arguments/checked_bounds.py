"""Bounds of parameters whose elements are checked before each call, as they index an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .index_checks import called_functions
from .index_ranges import IndexRange
from .signature import Param, Signature


def checked_bounds(
    mod: Any, signatures: Mapping[str, Signature]
) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the least and the greatest element of parameters, by function and position.

    Functions that other functions of the module call have none: only calls from outside are
    checked. Nor have parameters that index an axis of symbolic size.

    Args:
        mod: The module.
        signatures: The parameters of its exported functions; the boundary checks their ranges.
    """
    called = {gvar.name_hint for gvar in called_functions(mod)}
    found = {name: _of_parameters(s) for name, s in signatures.items() if name not in called}
    return {name: bounds for name, bounds in found.items() if bounds}


def _of_parameters(signature: Signature) -> dict[int, tuple[int, int]]:
    by_param: dict[int, list[IndexRange]] = {}
    for ranges in signature.indices:
        by_param.setdefault(ranges.param, []).append(ranges)
    found = {k: _union(signature.params[k], ranges) for k, ranges in by_param.items()}
    return {k: bounds for k, bounds in found.items() if bounds is not None}


def _union(param: Param, ranges: Sequence[IndexRange]) -> tuple[int, int] | None:
    """Return bounds of all elements; None if some have none, or sizes decide about them."""
    ends = {r.component: (r.low, r.high) for r in ranges
            if isinstance(r.low, int) and isinstance(r.high, int)}  # fmt: skip
    if param.kind != "tensor" or not param.shape:
        return None
    last = param.shape[-1]
    components = range(last) if isinstance(last, int) else ()
    chosen = [ends[None]] if None in ends else [ends.get(k) for k in components]
    known = [e for e in chosen if e is not None]
    if not known or len(known) < len(chosen):
        return None
    low, high = min(int(e[0]) for e in known), max(int(e[1]) for e in known)
    return (low, high) if low <= high else None
