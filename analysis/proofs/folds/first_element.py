"""Folds that begin with the first element, as folds that begin below all elements.

    index, value = 0, x[0];        for k in range(n - 1): … x[k + 1] …
    index, value = -1, lowest;     for k in range(n): … x[k] …

They are one fold if the step from below all elements to the first one gives the first element:
that is, if it is above the lowest number.
"""

from __future__ import annotations

import math

from ...terms.term import (
    FALSE,
    TRUE,
    CallTerm,
    Const,
    Fold,
    Int,
    Load,
    Term,
    as_int,
    bare,
    fold,
    fresh,
    integer,
)
from ...terms.term.literals import WHOLE
from ...terms.traversal import rebuild, replace, substitute

#: No number of any type is this large, except for the extremes of its type.
_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}


def from_below(late: Fold, whole: Fold, order: tuple[int, ...]) -> Fold | None:
    """Return a fold from the first element as one with the starts of another; None if it is not.

    Args:
        late: The fold over all elements except the first.
        whole: The fold over all elements, which starts with literals.
        order: The state of `whole` for each state of `late`.
    """
    if late.axis.extent is None or whole.axis.extent is not late.axis.extent + 1:
        return None
    starts = tuple(whole.inits[k] for k in order)
    if not all(
        isinstance(x, Const) or (isinstance(x, Int) and x.const is not None) for x in starts
    ):
        return None
    placed = dict(zip(late.states, map(bare, starts), strict=True))
    first = {late.axis: integer(-1)}
    for update, init in zip(late.updates, late.inits, strict=True):
        value = _above_lowest(replace(substitute(update, first), placed))
        if bare(value) is not bare(init):
            return None
    axis = fresh(whole.axis.extent)
    back = {late.axis: as_int(axis) - 1}
    longer = fold(axis, late.states, starts, tuple(substitute(u, back) for u in late.updates))
    result = bare(longer)
    return result if isinstance(result, Fold) else None


def _above_lowest(term: Term) -> Term:
    """The term where every element is above the lowest number and below the highest."""
    if isinstance(term, CallTerm) and term.op == "lt":
        low, high = term.args
        if isinstance(high, Load) and isinstance(low, Const) and _is_end(low, -1):
            return TRUE
        if isinstance(low, Load) and isinstance(high, Const) and _is_end(high, 1):
            return TRUE
        if isinstance(high, Load) and isinstance(low, Const) and _is_end(low, 1):
            return FALSE
        if isinstance(low, Load) and isinstance(high, Const) and _is_end(high, -1):
            return FALSE
    return rebuild(term, _above_lowest)


def _is_end(number: Const, sign: int) -> bool:
    """Whether a literal is the largest number of its type, or the least for a negative sign."""
    if number.dtype not in WHOLE or not isinstance(number.value, (int, float)):
        return False
    return number.value * sign in (math.inf, _LARGEST.get(number.dtype))
