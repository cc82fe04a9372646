"""Certify what recognisers propose, and choose among the certified operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from ..certify.certify import PROPOSE, Misfit, certify, lowers_to
from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.answer_values import literals
from ..proposal.proposal import Constant, Proposal
from ..real import idiomatic
from ..recognise import recognisers
from ..registry.call_recogniser import RecogniserFailure, attempt, proposals
from ..registry.registry import Recogniser, extern_recognisers
from ..results.op_info import Certificate, OpInfo, Refusal
from ..terms.term import TensorVar
from ..terms.term.work_budget import spend
from .kind import pattern_kind

#: The longest text of a tensor expression in a refusal.
_LONGEST_TEXT = 400

_Claim = tuple[Any, ...]


def certified_operator(
    expression: TensorExpression,
    func: Any,
    alternatives: bool,
    *,
    tested: bool = False,
    rounded: bool = False,
) -> OpInfo | Refusal:
    """Return the first certified operator, or the reason for a refusal.

    An operator that lowers to exactly this PrimFunc is preferred to one that is only proved equal.

    Args:
        expression: What the PrimFunc computes.
        func: The PrimFunc; None if the expression is over other buffers.
        alternatives: Also certify the other operators that compute the same result.
        tested: Accept an operator that is equal only on random inputs.
        rounded: Compare in real arithmetic.
    """
    certified: list[OpInfo] = []
    refusals: list[Refusal] = []
    failures: list[Refusal] = []
    claims: list[_Claim] = []
    for recogniser, proposal in _proposals(expression, rounded, failures):
        if any(proposal.name == info.name for info in certified):
            continue
        if certified and not alternatives:
            certificate = partial(lowers_to, proposal, expression, func)
        else:
            certificate = partial(
                certify, proposal, expression, func, tested=tested, rounded=rounded
            )
        judge = partial(_judge, proposal, expression, certificate, claims if rounded else None)
        info = attempt(recogniser, judge, proposal)
        if isinstance(info, Refusal):
            (failures if isinstance(info, RecogniserFailure) else refusals).append(info)
        elif info is not None:
            certified.append(info)
            if not alternatives and (info.certificate.kind == "rebuilt" or func is None):
                return info
    if certified:
        return _preferred(certified, alternatives)
    if failures or refusals:
        return min(failures + refusals, key=lambda refusal: isinstance(refusal, Misfit))
    return Refusal("no recogniser knows this compute", _text(expression))


def _preferred(certified: list[OpInfo], alternatives: bool) -> OpInfo:
    """The operator that lowers to the PrimFunc, else the first; the others as alternatives."""
    first, *others = sorted(certified, key=lambda info: info.certificate.kind != "rebuilt")
    return replace(first, alternatives=tuple(others) if alternatives else ())


def _proposals(
    expression: TensorExpression, rounded: bool, failures: list[Refusal]
) -> Iterator[tuple[Recogniser, Proposal]]:
    """The proposals of all recognisers; each recogniser that failed is added to `failures`.

    Up to rounding, the recognisers also see the expression in its idiomatic form.
    """
    spend(PROPOSE)
    exact = extern_recognisers() if expression.externs else recognisers(rounded)
    views = [(recogniser, expression) for recogniser in exact]
    if rounded:
        idiom = idiomatic(expression)
        views += [(recogniser, idiom) for recogniser in recognisers(False)]
    for recogniser, view in views:
        proposed = proposals(recogniser, view)
        if not isinstance(proposed, Refusal):
            yield from ((recogniser, proposal) for proposal in proposed)
        elif isinstance(proposed, RecogniserFailure):
            failures.append(proposed)


def _judge(
    proposal: Proposal,
    expression: TensorExpression,
    certificate: Callable[[], Certificate | Refusal],
    claims: list[_Claim] | None,
) -> OpInfo | Refusal | None:
    """The certified operator, or why it is refused; None if `claims` has the proposal already."""
    if claims is not None:
        claim = (proposal.name, proposal.operands, dict(proposal.attrs))
        if claim in claims:
            return None
        claims.append(claim)
    result = certificate()
    return result if isinstance(result, Refusal) else _info(proposal, expression, result)


def _info(proposal: Proposal, expression: TensorExpression, certificate: Certificate) -> OpInfo:
    layouts = tuple(
        proposal.layouts.get(position, "") if isinstance(param, TensorVar) else ""
        for position, param in enumerate(expression.params)
    )
    return OpInfo(
        name=proposal.name,
        attrs={key: _value(value) for key, value in proposal.attrs.items()},
        operands=proposal.operands,
        kind=pattern_kind(expression),
        layouts=layouts,
        certificate=certificate,
        undetermined=proposal.undetermined,
    )


def _value(value: Any) -> Any:
    """An attribute without terms, except those over sizes."""
    return tirx.const(value.value, value.dtype) if isinstance(value, Constant) else literals(value)


def _text(expression: TensorExpression) -> str:
    text = repr(expression)
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
