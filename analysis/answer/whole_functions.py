"""Operators that are recognised from a whole PrimFunc, since it has no terms.

The certificate is ``rebuilt``: the operator lowers to this very PrimFunc.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import tvm_ffi
from tvm import tirx

from ..certify.certify import lowers_to
from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..lifting.lift import Executor
from ..lifting.tir.from_tir import Unliftable
from ..lifting.tir.node import NodeDict, items
from ..proposal.proposal import Proposal
from ..recurrent.propose_recurrences import propose_recurrences
from ..results.op_info import Certificate, OpInfo
from ..terms.term import ZERO, TensorVar
from ..terms.work import spend
from .recovered import Recovered

#: The most operators that are compared with a PrimFunc, and the cost of one in the budget.
MOST, COST = 64, 300


def whole_function(func: Any) -> Recovered | None:
    """Return the operator that lowers to a PrimFunc that cannot be lifted; None without one."""
    signature = _signature(func)
    if signature is None:
        return None
    written = [definition.out for definition in signature.outputs]
    for proposal in islice(propose_recurrences(func, signature.params, written), MOST):
        spend(COST)
        certificate = lowers_to(proposal, signature, func)
        if isinstance(certificate, Certificate):
            outputs = tuple(tensor.position for tensor in written)
            return Recovered(_info(proposal, signature, certificate), signature.params, outputs)
    return None


def _signature(func: Any) -> TensorExpression | None:
    """Return the parameters of a PrimFunc, and which of them it writes; the bodies mean nothing."""
    executor, params = Executor(func), items(func.params)
    try:
        executor.bind_sizes(params, [None] * len(params))
        for position, param in enumerate(params):
            executor.bind_param(param, position, None)
    except Unliftable:
        return None
    stored = NodeDict[bool]()
    tvm_ffi.structural_walk(
        func.body, (tirx.BufferStore, lambda s: stored.__setitem__(s.buffer, True))
    )
    values = [(p, executor.values[p]) for p in params]
    written = [v for p, v in values if p in stored and isinstance(v, TensorVar)]
    outputs = tuple(OutputDefinition(tensor, (), ZERO) for tensor in written)
    return TensorExpression(tuple(v for _, v in values), outputs, sums=executor.written_sums())


def _info(proposal: Proposal, signature: TensorExpression, certificate: Certificate) -> OpInfo:
    layouts = ("",) * len(signature.params)
    return OpInfo(proposal.name, proposal.attrs, proposal.operands, "kOpaque", layouts, certificate)
