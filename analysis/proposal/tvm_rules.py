"""TVM's own rules, for PrimFuncs that compute what these do where ours compute something else."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from ..lifting.effects.tensor_expression import TensorExpression
from ..terms.term import Const, TensorVar
from ..terms.traversal import subterms
from .lowering import lower_max_pool, lower_missing
from .proposal import Constant, Proposal

#: Of a maximum from the lowest finite number, where the operator's is from minus infinity.
SOME_FINITE = "no window of a maximum is of minus infinity alone"


def tvm_rule(proposal: Proposal, lifted: TensorExpression) -> Any:
    """Return TVM's rule if a PrimFunc is to be compared with what it makes; None for others."""
    return _of_pool(proposal, lifted) or _of_comparison(proposal)


def rule_assumptions(proposal: Proposal, lifted: TensorExpression) -> tuple[str, ...]:
    """Return where TVM's rule computes what the operator does."""
    return () if _of_pool(proposal, lifted) is None else (SOME_FINITE,)


def _of_pool(proposal: Proposal, lifted: TensorExpression) -> Any:
    """The rule of a maximum pool that begins with the lowest number: no window is of padding."""
    rule = lower_max_pool.TVM_RULES.get(proposal.name)
    if rule is None or not _has_lowest(lifted):
        return None
    operand = proposal.operands[0]
    data = None if isinstance(operand, Constant) else lifted.params[operand]
    if not isinstance(data, TensorVar):
        return None
    extents = [extent.const for extent in data.shape]
    return rule if lower_max_pool.reads_in_each_window(proposal.attrs, extents) else None


def _has_lowest(lifted: TensorExpression) -> bool:
    """Return whether the lowest finite number occurs, with which TVM begins a maximum."""
    return any(
        isinstance(term, Const)
        and "float" in term.dtype
        and term.value == tirx.min_value(term.dtype).value
        for output in lifted.outputs
        for term in subterms(output.body)
    )


def _of_comparison(proposal: Proposal) -> Any:
    """The rule of a tensor's comparison with itself.

    The certificate says that TVM takes values of the PrimFunc for ordered.
    """
    rule = lower_missing.TVM_RULES.get(proposal.name)
    return rule if rule is not None and len({*proposal.operands}) == 1 else None
