"""Numbers of an index that are computed in floating point, as literals.

    int(floor((cast(3) + 0.5) * 0.5 - 0.5)) = 1

The value is that of the operations in their type, and is only taken where it is the exact value:
then no contraction or order of operations changes it.
"""

from __future__ import annotations

from fractions import Fraction

from ...terms.evaluate import Unevaluable, evaluate
from ...terms.term import INT_DTYPES, CallTerm, Int, Term, bare, const, integer
from ...terms.traversal import free, rebuild
from ..sums.polynomial import REAL
from .element_polynomials import NotWritten, polynomial_at


def without_closed(term: Term) -> Term:
    """Return a term with floors and casts of literals as literals.

    Raises:
        NotWritten: A literal is not exact.
    """
    memo: dict[Term, Term] = {}

    def go(term: Term) -> Term:
        result = memo.get(term)
        if result is None:
            result = rebuild(term, go)
            inner = bare(result)
            if isinstance(inner, CallTerm) and inner.op in ("cast", "floor"):
                result = _literal(inner) or result
            memo[term] = result
        return result

    return go(term)


def _literal(call: CallTerm) -> Term | None:
    """The literal that a call without elements and variables is; else None."""
    (operand,) = call.args
    if operand.reads or free(operand):
        return None
    value = exact_value(operand)
    if call.op == "floor":
        return const(float(value.__floor__()), call.dtype)
    if call.dtype in REAL:
        return _same(const(float(value), call.dtype), value)
    if call.dtype not in INT_DTYPES:
        return None
    return integer(int(value))  # towards zero, as the cast of a float


def exact_value(term: Term) -> Fraction:
    """Return the value of a term without variables, which its operations compute exactly."""
    if isinstance(term, Int):
        if term.const is None:
            raise NotWritten
        return Fraction(term.const)
    exact = polynomial_at(term)
    if exact.keys() - {()}:
        raise NotWritten
    value = exact.get((), Fraction(0))
    _same(term, value)
    return value


def _same(term: Term, value: Fraction) -> Term:
    """The term, if its operations give exactly the value in its type."""
    try:
        if Fraction(float(evaluate(term, {}))) == value:
            return term
    except (Unevaluable, OverflowError, ValueError):
        pass
    raise NotWritten
