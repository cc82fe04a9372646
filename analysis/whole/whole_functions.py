"""Operators that are recognised from a whole PrimFunc, since it has no terms.

The operator lowers to this very PrimFunc, so the certificate is ``rebuilt``; or ``extern`` if that
calls extern functions, of which the documentation says what they compute. It is ``kernel`` if TVM
has the PrimFunc as a kernel of the operator, beside its lowering.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..certify.certify import lowers_to
from ..certify.structural_equality import structurally_equal
from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..lifting.externs import name_of
from ..lifting.lift import Executor
from ..lifting.tir.node import NodeDict, items
from ..lifting.tir.unliftable import Unliftable
from ..paged.library_kernels import candidates
from ..proposal.proposal import Proposal
from ..results.op_info import ASSUMED, Certificate, OpInfo
from ..terms.term import ZERO, TensorVar
from ..terms.term.work_budget import spend
from .propose_recurrences import propose_recurrences
from .propose_suppressions import propose_suppressions

#: The most operators that are compared with a PrimFunc, and the cost of one in the budget.
MOST, COST = 64, 300


def whole_function(func: Any) -> tuple[OpInfo, TensorExpression] | None:
    """Return the operator that lowers to a PrimFunc that cannot be lifted, and its parameters.

    The bodies of the expression mean nothing. None if no known operator lowers to the PrimFunc.
    """
    signature = _signature(func)
    if signature is None:
        return None
    if (info := _kernel(func, signature)) is not None:
        return info, signature
    written = [definition.out for definition in signature.outputs]
    for proposal in islice(_proposals(func, signature, written), MOST):
        spend(COST)
        certificate = lowers_to(proposal, signature, func)
        if isinstance(certificate, Certificate):
            return _info(proposal, signature, _on_documentation(certificate, func)), signature
    return None


def _kernel(func: Any, signature: TensorExpression) -> OpInfo | None:
    """The operator of which TVM generates this very kernel; None if there is none."""
    for kernel, attrs, generated, plain in candidates(func, signature.params):
        spend(COST)
        if not structurally_equal(generated, plain):
            continue
        assumptions = (*ASSUMED, *kernel.assumptions)
        certificate = Certificate("kernel", exact=False, assumptions=assumptions)
        proposal = Proposal(kernel.operator, kernel.operands, attrs)
        info = _info(proposal, signature, certificate)
        return replace(info, inplace_indices=kernel.outputs) if kernel.inplace else info
    return None


def _proposals(
    func: Any, signature: TensorExpression, written: list[TensorVar]
) -> Iterator[Proposal]:
    return chain(propose_recurrences(func, signature.params, written),
                 propose_suppressions(func, signature.params, written))  # fmt: skip


def _on_documentation(certificate: Certificate, func: Any) -> Certificate:
    """The certificate of a PrimFunc, which says if it calls extern functions."""
    names: dict[str, None] = {}

    def visit(call: Any) -> None:
        if name := name_of(call):
            names[name] = None

    tvm_ffi.structural_walk(func.body, (tvm.ir.Call, visit))
    if not names:
        return certificate
    assumed = tuple(f"the extern function {name} computes what TVM documents" for name in names)
    return replace(
        certificate, kind="extern", assumptions=(*certificate.assumptions, *assumed), stages=1
    )


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
    return OpInfo(proposal.name, proposal.attrs, proposal.operands, "kOpaque", layouts, certificate,
                  proposal.undetermined)  # fmt: skip
