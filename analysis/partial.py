"""Operations that have no result for some operands: what a certificate assumes of the data.

The machine gives something for a float that no integer is, a shift by the width, a quotient by 0,
but not the same in a vector as in a scalar, nor in two kernels. So equal terms are equal results
only elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from .terms.rewrite import subterms
from .terms.term import Call, Const, Int, Term

#: Conversions to an integer of less values than the float has.
FITS = "a float that is cast to an integer fits it"
SHIFTS = "shifts are by at least 0 and by less than the width of their type"
DIVIDES = "no integer is divided by 0, nor the least one by -1"

_SHIFTS = frozenset({"shl", "shr"})
#: A plain ``floordiv`` is not here: its divisor is known to be positive.
_DIVISIONS = frozenset(
    {
        "floordiv_any",
        "floordiv_elem",
        "floormod_any",
        "floormod_elem",
        "truncdiv",
        "truncmod",
        "div",
    }
)


def partial(bodies: Iterable[Term]) -> tuple[str, ...]:
    """What has to hold of the data wherever an operation in some terms is executed."""
    told: dict[str, None] = {}
    for body in bodies:
        for s in subterms(body):
            if isinstance(s, Call) and (why := _assumed(s)):
                told[why] = None
    return tuple(t for t in (FITS, SHIFTS, DIVIDES) if t in told)


def _assumed(s: Call) -> str:
    if s.op == "cast":
        return FITS if "int" in s.dtype and "float" in s.args[0].dtype else ""
    if s.op in _SHIFTS:
        count = _literal(s.args[1])
        return "" if count is not None and 0 <= count < _width(s.dtype) else SHIFTS
    if s.op in _DIVISIONS and "float" not in s.dtype:
        by = _literal(s.args[1])
        return "" if by is not None and by not in (0, -1) else DIVIDES
    return ""


def _width(dtype: str) -> int:
    """The bits of an integer type; those of the narrower one where two are not told apart."""
    return int(dtype.removeprefix("u").removeprefix("int") or 32)


def _literal(t: Term) -> int | None:
    if isinstance(t, Int):
        return t.const
    return int(t.value) if isinstance(t, Const) and isinstance(t.value, int) else None
