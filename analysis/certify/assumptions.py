"""Where equal terms are not equal results: what a certificate assumes of the data.

The machine gives something for a float that no integer is, a shift by the width, a quotient by 0,
but not the same in a vector as in a scalar, nor in two kernels.

TVM simplifies a statement before it is compiled, and comparisons of floats as if they were ordered
(``not x < y`` becomes ``y <= x``, ``x == x`` true), sums as if they were of real numbers
(``x + y - y`` becomes ``x``). So what a statement computes there depends on where its borders are.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..lifting.tir.operations import width
from ..terms.term import CallTerm, Const, Int, Term
from ..terms.traversal import subterms

#: Conversions to an integer of less values than the float has.
FITS = "a float that is cast to an integer fits it"
SHIFTS = "shifts are by at least 0 and by less than the width of their type"
DIVIDES = "no integer is divided by 0, nor the least one by -1"

ORDERED = "no NaN is compared with itself, nor in a negated or one of several comparisons"
CANCELS = "terms that TVM cancels, as a floating-point sum adds and subtracts them, are finite"

_COMPARISONS = frozenset({"lt", "le", "eq", "ne"})
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


#: Terms of one sum that are looked at.
_TERMS = 200


def partial(bodies: Iterable[Term]) -> tuple[str, ...]:
    """What has to hold of the data wherever an operation in some terms is executed."""
    told: dict[str, None] = {}
    for body in bodies:
        for s in subterms(body):
            if isinstance(s, CallTerm) and (why := _assumed(s)):
                told[why] = None
    return tuple(t for t in (FITS, SHIFTS, DIVIDES) if t in told)


def simplified(bodies: Iterable[Term]) -> tuple[str, ...]:
    """What TVM's simplifier takes for granted of the values of statements."""
    told: dict[str, None] = {}
    for body in bodies:
        inside = [s for s in subterms(body) if isinstance(s, CallTerm)]
        compared = [s for s in inside if s.op in _COMPARISONS and "float" in s.args[0].dtype]
        negated = any(s.op == "not" and s.args[0] in compared for s in inside)
        if negated or len(compared) > 1 or any(s.args[0] is s.args[1] for s in compared):
            told[ORDERED] = None
        if any(_cancels(s) for s in inside if s.op == "sub" and "float" in s.dtype):
            told[CANCELS] = None
    return tuple(told)


def _cancels(s: CallTerm) -> bool:
    """Whether a sum has a term, or literals, with both signs."""
    added, removed = list[Term](), list[Term]()
    stack: list[tuple[Term, bool]] = [(s, True)]
    while stack:
        t, sign = stack.pop()
        if isinstance(t, CallTerm) and t.op in ("add", "sub") and t.dtype == s.dtype:
            stack.append((t.args[0], sign))
            stack.append((t.args[1], sign if t.op == "add" else not sign))
        else:
            (added if sign else removed).append(t)
        if len(added) + len(removed) > _TERMS:
            return True
    literals = [t for t in (*added, *removed) if isinstance(t, Const)]
    return len(literals) > 1 or not set(added).isdisjoint(removed)


def _assumed(s: CallTerm) -> str:
    if s.op == "cast":
        return FITS if "int" in s.dtype and "float" in s.args[0].dtype else ""
    if s.op in _SHIFTS:
        count = _literal(s.args[1])
        return "" if count is not None and 0 <= count < width(s.dtype) else SHIFTS
    if s.op in _DIVISIONS and "float" not in s.dtype:
        by = _literal(s.args[1])
        return "" if by is not None and by not in (0, -1) else DIVIDES
    return ""


def _literal(t: Term) -> int | None:
    if isinstance(t, Int):
        return t.const
    return int(t.value) if isinstance(t, Const) and isinstance(t.value, int) else None
