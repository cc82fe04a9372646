"""The last resort for small outputs: one loop is fitted to what they are at each place."""

from __future__ import annotations

from dataclasses import replace

from ..lifting.effects.tensor_expression import TensorExpression
from ..proofs.proof import Obligation
from ..real import AT_PLACES, fitted_loops
from ..real.sums.polynomial import REAL
from ..results.op_info import OpInfo, Refusal
from ..terms.term.work_budget import share
from .candidates import certified_operator
from .kind import pattern_kind

#: Steps of the budget of one question.
_STEPS = 80_000


def recover_at_places(expression: TensorExpression, alternatives: bool) -> OpInfo | Refusal:
    """Return the operator of a loop that is equal at each place, in real arithmetic."""
    with share(_STEPS):
        for loop in fitted_loops(expression):
            info = certified_operator(loop, None, alternatives, rounded=True)
            if isinstance(info, OpInfo):
                return _over(expression, info)
    return Refusal("no loop that is equal at each place is an operator")


def _over(expression: TensorExpression, info: OpInfo) -> OpInfo:
    """The answer about a loop as one about the expression that it is equal to."""
    own = info.certificate
    rounds = any(output.out.dtype in REAL for output in expression.outputs)
    certificate = replace(
        own,
        kind="real" if rounds else own.kind,
        exact=own.exact and not rounds,
        obligations=(*own.obligations, Obligation(AT_PLACES, "enumeration", 0.0)),
    )
    others = tuple(_over(expression, other) for other in info.alternatives)
    kind = pattern_kind(expression)
    return replace(info, certificate=certificate, kind=kind, alternatives=others)
