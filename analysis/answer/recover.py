"""``op_info``: lift, recognise, certify.

A PrimFunc is lifted to a tensor expression. Recognisers propose operators for it, and a proposal is
an answer once it is certified. If none is, the layouts of the buffers are undone and the search is
repeated over logical buffers. The last resort is an operator that is equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from ..certify.certify import Misfit
from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.externs import calls_extern
from ..lifting.lift import lift
from ..lifting.outputs import WritesInPlace
from ..lifting.tir.unliftable import Unliftable
from ..real import TooLarge, real
from ..results.op_info import Answer, LayoutNormalised, OpInfo, Refusal
from ..terms.term.work_budget import Exhausted, budget
from ..terms.traversal import subterms
from ..undo_layouts import logical_forms
from ..undo_layouts.logical_answer import express_layouts, normalise
from ..undo_layouts.logical_places import unchanged_layouts
from ..whole.whole_functions import whole_function
from .at_places import recover_at_places
from .candidates import certified_operator
from .internal_error import fault
from .kind import pattern_kind
from .recovered import Recovered

Exact = Callable[[TensorExpression, Any, bool], OpInfo | Refusal]
"""Returns the operator over the PrimFunc's own buffers, without rounding."""

#: Expressions with more sub-terms are not compared up to rounding.
_MOST_ROUNDED_TERMS = 300


def op_info(func: Any, *, alternatives: bool = False, tested: bool = False) -> OpInfo | Refusal:
    """Return the operator that a PrimFunc computes on its own buffers, with a certificate.

    Only the body of `func` is read: no name, attribute or annotation.

    Args:
        func: A `tirx.PrimFunc`.
        alternatives: Also certify the other operators that compute the same result.
        tested: Accept an operator that is equal only on random inputs.

    Returns:
        The operator, or a `Refusal` with the reason. An operator over other buffers than the
        PrimFunc's is returned by `layout_normalised`.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    info = analyse(func, alternatives=alternatives, tested=tested).of(func).info
    if not isinstance(info, LayoutNormalised):
        return info
    return Refusal(
        f"no operator has these buffers: it is {info.logical.name} with "
        + ", ".join(f"%{k} at {text}" for k, text in enumerate(info.places) if text),
        "see opinfo.analysis.layout_normalised(func)",
    )


def layout_normalised(func: Any, *, alternatives: bool = False) -> LayoutNormalised | Refusal:
    """Return the operator that a PrimFunc computes over logical buffers, and the buffers' layouts.

    ``op(*operands, **attrs)`` on the PrimFunc's own buffers computes something else, unless all of
    them are logical.

    Args:
        func: A `tirx.PrimFunc`; only its body is read.
        alternatives: Also certify the other operators that compute the same result.

    Returns:
        The operator and the layouts, or a `Refusal` with the reason.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    result = analyse(func, alternatives=alternatives)
    info = result.info
    if isinstance(info, OpInfo):
        unchanged = LayoutNormalised(info, unchanged_layouts(result.params), info.layouts)
        result = replace(result, info=info.relayout or unchanged)
    info = result.of(func).info
    assert not isinstance(info, OpInfo)
    return info


def analyse(func: Any, *, alternatives: bool = False, tested: bool = False) -> Recovered:
    """Return the answer of `op_info` together with the lifted parameters."""
    with budget():
        first = with_externs(lift_or_refuse(func), func)
        expression = with_updates(first, func)
        if isinstance(expression, Refusal):
            return recover_whole(func, expression)
        answer = recover_or_refuse(expression, func, alternatives=alternatives, tested=tested)
    # no operator has these operands, so that the update itself is the reason
    return (
        Recovered(first)
        if isinstance(first, Refusal) and isinstance(answer.info, Misfit)
        else answer
    )


def recover_whole(func: Any, refusal: Refusal) -> Recovered:
    """Return the operator of a PrimFunc that cannot be lifted, recognised as a whole.

    Args:
        func: The PrimFunc.
        refusal: Why it cannot be lifted, which is the answer without such an operator.
    """
    try:
        whole = whole_function(func)
    except Exhausted as error:
        return Recovered(Refusal(str(error)))
    except Exception as error:
        return Recovered(fault(error))
    if whole is None:
        return Recovered(refusal)
    info, signature = whole
    outputs = tuple(definition.out.position for definition in signature.outputs)
    return Recovered(info, signature.params, outputs)


def with_externs(expression: TensorExpression | Refusal, func: Any) -> TensorExpression | Refusal:
    """Return the expression; if it is a refusal of extern calls, one over their results.

    Only the search for an operator may see it: it does not say what an element depends on.
    """
    if not isinstance(expression, Refusal) or not calls_extern(func):
        return expression
    return lift_or_refuse(func, externs=True)


def with_updates(expression: TensorExpression | Refusal, func: Any) -> TensorExpression | Refusal:
    """Return the expression; if a parameter is updated, one with its new content as an output."""
    if not isinstance(expression, UpdatesParameter):
        return expression
    return lift_or_refuse(func, in_place=True)


@dataclass(frozen=True, repr=False)
class UpdatesParameter(Refusal):
    """The refusal of a function that updates a parameter in place."""


def lift_or_refuse(
    func: Any, externs: bool = False, in_place: bool = False
) -> TensorExpression | Refusal:
    """Return what a PrimFunc computes, or why it cannot be lifted."""
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"op_info: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
    try:
        with budget():
            return lift(func, externs=externs, in_place=in_place)
    except WritesInPlace as error:
        return UpdatesParameter(error.reason, error.where)
    except Unliftable as error:
        return Refusal(error.reason, error.where)
    except Exhausted as error:
        return Refusal(str(error))
    except RecursionError:
        return Refusal("the compute is nested too deeply")
    except Exception as error:
        return fault(error)


def recover_or_refuse(
    expression: TensorExpression, func: Any, *, alternatives: bool = False, tested: bool = False,
    exact: Exact = certified_operator,
) -> Recovered:  # fmt: skip
    """Return the answer for a lifted PrimFunc; an exception becomes a refusal."""
    if not expression.outputs:
        return Recovered(Refusal("the function writes no element of a parameter"))
    try:
        with budget():
            info = recover(expression, func, alternatives, exact)
            if tested and isinstance(info, Refusal):
                info = certified_operator(expression, func, alternatives, tested=True)
    except Exhausted as error:
        info = Refusal(str(error))
    except Exception as error:
        info = fault(error)
    outputs = tuple(output.out.position for output in expression.outputs)
    indices = expression.inplace_indices
    if not indices:
        return Recovered(info, expression.params, outputs)
    count = len(expression.params) - sum(k >= 0 for k in indices)
    outputs = tuple(p if k < 0 else k for p, k in zip(outputs, indices, strict=True))
    return Recovered(_in_place(info, indices, count), expression.params[:count], outputs)


def _in_place(info: Answer, indices: tuple[int, ...], count: int) -> Answer:
    """The answer about a function with ``count`` parameters, some of which it updates."""
    if isinstance(info, OpInfo) and info.relayout is None:
        return replace(info, layouts=info.layouts[:count], inplace_indices=indices)
    if isinstance(info, Refusal):
        return info
    return Refusal("an updated parameter is in another layout than the operator's")


def recover(
    expression: TensorExpression, func: Any, alternatives: bool = False,
    exact: Exact = certified_operator,
) -> Answer:  # fmt: skip
    """Return the operator: over the PrimFunc's buffers, over logical ones, or up to rounding."""
    direct = exact(expression, func, alternatives)
    if isinstance(direct, OpInfo) or expression.externs:
        return direct
    logical = recover_logical(expression, None, alternatives)
    if not isinstance(logical, Refusal):
        return logical
    return (
        _recover_rounded(expression, alternatives)
        or recover_at_places(expression, alternatives)
        or direct
    )


def recover_direct(
    expression: TensorExpression, func: Any, alternatives: bool = False,
    exact: Exact = certified_operator, rounded: bool = True,
) -> OpInfo | Refusal:  # fmt: skip
    """Return the operator over the PrimFunc's own buffers, if necessary up to rounding.

    Without ``rounded``, one that is only equal up to rounding is refused.
    """
    direct = exact(expression, func, alternatives)
    if direct or (_rounds(expression) and not rounded):
        return direct
    return (
        _recover_rounded(expression, alternatives)
        or recover_at_places(expression, alternatives)
        or direct
    )


def _rounds(expression: TensorExpression) -> bool:
    return any("float" in output.out.dtype for output in expression.outputs)


def recover_logical(expression: TensorExpression, _: Any, alternatives: bool = False) -> Answer:
    """Return the operator over buffers whose packed or permuted layouts are undone.

    The answer is an `OpInfo` if the operator has attributes that name these layouts.
    """
    for form in logical_forms(expression):
        logical = certified_operator(form.lifted, None, alternatives)
        if isinstance(logical, OpInfo):
            info = normalise(replace(logical, kind=pattern_kind(expression)), form)
            return express_layouts(info, expression) or info
    return Refusal("no choice of layouts makes it an operator")


def _recover_rounded(expression: TensorExpression, alternatives: bool) -> OpInfo | Refusal:
    """The operator that is equal in real arithmetic."""
    if not _rounds(expression):
        return Refusal("the compute does not round")
    size = sum(1 for output in expression.outputs for _ in subterms(output.body))
    if size > _MOST_ROUNDED_TERMS:
        return Refusal("the compute is too large to compare up to rounding")
    try:
        forms = [real(output.body) for output in expression.outputs]
        info = certified_operator(expression, None, alternatives, rounded=True)
        del forms  # the cache of `real` forgets a form that nothing refers to
        return info
    except (TooLarge, RecursionError):
        return Refusal(str(TooLarge()))
