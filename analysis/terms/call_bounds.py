"""Bounds of min, max, selections, bitwise operations and division that rounds towards zero."""

from __future__ import annotations

from .order import CALL_BOUNDS, Bounds, bounds, nonneg
from .term import ZERO, CallTerm, Int, as_int, integer


def _extreme_bounds(atom: CallTerm) -> Bounds:
    ends = [bounds(as_int(a)) for a in atom.args]
    pick = min if atom.op == "min" else max

    def combine(values: list[Int | None], keep_known: bool) -> Int | None:
        known_bounds = [v for v in values if v is not None]
        if (len(known_bounds) < len(values) and not keep_known) or not known_bounds:
            return None
        if all(v.const is not None for v in known_bounds):
            return integer(pick(v.const for v in known_bounds if v.const is not None))
        if keep_known:
            return known_bounds[0]
        for poly in known_bounds:
            if all(nonneg((w - poly) if pick is min else (poly - w)) for w in known_bounds):
                return poly
        return None

    return (
        combine([e[0] for e in ends], atom.op == "max"),
        combine([e[1] for e in ends], atom.op == "min"),
    )


def _ite_bounds(atom: CallTerm) -> Bounds:
    first, second = bounds(as_int(atom.args[1])), bounds(as_int(atom.args[2]))
    out: list[Int | None] = []
    for sign, a, b in ((1, first[0], second[0]), (-1, first[1], second[1])):
        if a is None or b is None:
            out.append(None)
        elif nonneg((b - a) * sign):
            out.append(a)
        elif nonneg((a - b) * sign):
            out.append(b)
        else:
            out.append(None)
    return out[0], out[1]


def _bit_bounds(atom: CallTerm) -> Bounds:
    ends = [bounds(as_int(a)) for a in atom.args]
    if any(lo is None or hi is None or lo.const is None or hi.const is None for lo, hi in ends):
        return None, None
    if any(lo.const < 0 for lo, _ in ends):  # type: ignore[union-attr,operator]
        return None, None
    tops = [hi.const for _, hi in ends]  # type: ignore[union-attr]
    if atom.op == "bitand":
        return ZERO, integer(min(tops))  # type: ignore[type-var,arg-type]
    return ZERO, integer((1 << max(t.bit_length() for t in tops)) - 1)  # type: ignore[union-attr]


def _truncdiv_bounds(atom: CallTerm) -> Bounds:
    """Monotone in the dividend; bounded for literal bounds over a positive literal only."""
    lo, hi = bounds(as_int(atom.args[0]))
    divisor = as_int(atom.args[1]).const
    if divisor is None or divisor < 1:
        return None, None
    ends = [None if p is None or p.const is None else p.const for p in (lo, hi)]
    low, high = (None if e is None else integer(_towards_zero(e, divisor)) for e in ends)
    return low, high


def _towards_zero(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


CALL_BOUNDS.update(
    {
        "truncdiv": _truncdiv_bounds,
        "min": _extreme_bounds,
        "max": _extreme_bounds,
        "ite": _ite_bounds,
        "bitxor": _bit_bounds,
        "bitor": _bit_bounds,
        "bitand": _bit_bounds,
    }
)
