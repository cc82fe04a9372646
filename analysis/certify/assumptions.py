"""The assumptions of a certificate about data: equal terms may still have unequal results.

For a cast of a float that does not fit, a shift by the width or a quotient by 0, the machine
returns some value, which may differ between vector and scalar code, and between kernels.

TVM simplifies a statement before it is compiled. It treats comparisons of floats as a total order
(``not x < y`` becomes ``y <= x``, ``x == x`` becomes true) and sums as sums of real numbers
(``x + y - y`` becomes ``x``). So the result depends on where one statement ends and the next
starts.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..lifting.tir.operations import width
from ..terms.term import CallTerm, Const, Int, Term
from ..terms.traversal import subterms

#: For conversions from a float to an integer, which has fewer values.
FITS = "a float that is cast to an integer fits it"
SHIFTS = "shifts are by at least 0 and by less than the width of their type"
DIVIDES = "no integer is divided by 0, nor the least one by -1"

ORDERED = "no NaN is compared with itself, nor in a negated or one of several comparisons"
CANCELS = "terms that TVM cancels, as a floating-point sum adds and subtracts them, are finite"

_COMPARISONS = frozenset({"lt", "le", "eq", "ne"})
_SHIFTS = frozenset({"shl", "shr"})
#: Without the plain ``floordiv``: its divisor is known to be positive.
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


#: The most terms of a sum that are compared.
_TERMS = 200


def data_assumptions(bodies: Iterable[Term]) -> tuple[str, ...]:
    """Return what must hold of the data wherever an operation in the terms is executed."""
    assumptions: dict[str, None] = {}
    for body in bodies:
        for term in subterms(body):
            if isinstance(term, CallTerm) and (assumption := _assumed(term)):
                assumptions[assumption] = None
    return tuple(t for t in (FITS, SHIFTS, DIVIDES) if t in assumptions)


def simplifier_assumptions(bodies: Iterable[Term]) -> tuple[str, ...]:
    """Return what TVM's simplifier assumes about the values in statements."""
    assumptions: dict[str, None] = {}
    for body in bodies:
        inside = [s for s in subterms(body) if isinstance(s, CallTerm)]
        compared = [s for s in inside if s.op in _COMPARISONS and "float" in s.args[0].dtype]
        negated = any(s.op == "not" and s.args[0] in compared for s in inside)
        if negated or len(compared) > 1 or any(s.args[0] is s.args[1] for s in compared):
            assumptions[ORDERED] = None
        if any(_cancels(s) for s in inside if s.op == "sub" and "float" in s.dtype):
            assumptions[CANCELS] = None
    return tuple(assumptions)


def _cancels(call: CallTerm) -> bool:
    """Whether a sum has the same term with both signs, or several literals."""
    added, removed = list[Term](), list[Term]()
    stack: list[tuple[Term, bool]] = [(call, True)]
    while stack:
        term, sign = stack.pop()
        if isinstance(term, CallTerm) and term.op in ("add", "sub") and term.dtype == call.dtype:
            stack.append((term.args[0], sign))
            stack.append((term.args[1], sign if term.op == "add" else not sign))
        else:
            (added if sign else removed).append(term)
        if len(added) + len(removed) > _TERMS:
            return True
    literals = [t for t in (*added, *removed) if isinstance(t, Const)]
    return len(literals) > 1 or not set(added).isdisjoint(removed)


def _assumed(call: CallTerm) -> str:
    if call.op == "cast":
        return FITS if "int" in call.dtype and "float" in call.args[0].dtype else ""
    if call.op in _SHIFTS:
        count = _literal(call.args[1])
        return "" if count is not None and 0 <= count < width(call.dtype) else SHIFTS
    if call.op in _DIVISIONS and "float" not in call.dtype:
        by = _literal(call.args[1])
        return "" if by is not None and by not in (0, -1) else DIVIDES
    return ""


def _literal(term: Term) -> int | None:
    if isinstance(term, Int):
        return term.const
    return int(term.value) if isinstance(term, Const) and isinstance(term.value, int) else None
