"""PrimFuncs that callers give for operators, used where they provably compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.answer.recovered import Recovered
from ...analysis.lifting.tir.node import NodeDict, items, substitute
from ...analysis.results.op_info import Refusal
from ..alternatives.layout_constraint import LayoutConstraint
from ..graph.relax_graph import Op
from ..model.layout import Layout
from ..verify.verify import lift_function, prove_moved


@dataclass(frozen=True)
class Implementation:
    """A PrimFunc to use for an operator wherever it provably computes it.

    Attributes:
        op: The operator's full Relax name.
        func: The PrimFunc.
        layouts: The layout of each of its buffers; None for a scalar.
    """

    op: str
    func: Any
    layouts: tuple[Layout | None, ...]


@dataclass(frozen=True)
class Replacement:
    """A PrimFunc that is proved to compute the same as another, in the layouts of a constraint."""

    func: Any
    constraint: LayoutConstraint


def replacement(
    func: Any, recovered: Recovered, implementation: Implementation
) -> Replacement | Refusal | None:
    """The implementation for a PrimFunc; None for another operator, a refusal without a proof."""
    if recovered.operator is None or recovered.operator.name != implementation.op:
        return None
    return _proved(func, implementation.func, implementation)


def tied_replacement(op: Op, implementation: Implementation) -> Replacement | Refusal | None:
    """The implementation for a call that reads a value more than once, as ``x + x`` does.

    Its PrimFunc then takes the value once: ``2 * x``. None if it takes other parameters.
    """
    first = [op.inputs.index(v) for v in op.inputs]
    distinct = sorted(set(first))
    count = len(op.inputs)
    if None in op.inputs or len(distinct) == count:
        return None
    if len(implementation.func.params) != len(distinct) + len(op.outputs):
        return None
    params = items(op.func.params)
    same = NodeDict[Any]()
    for k, j in enumerate(first):
        if j != k:
            same[params[k]] = params[j]
    body = substitute(op.func.body, same)
    tied = tirx.PrimFunc(params, body, op.func.ret_type, op.func.attrs)
    own_params = items(implementation.func.params)
    wide = list(own_params[: len(distinct)])
    layouts = list(implementation.layouts[: len(distinct)])
    for k, j in enumerate(first):
        if j != k:  # a parameter that nothing reads
            source = own_params[distinct.index(j)]
            wide.insert(k, tirx.decl_buffer(source.ty.shape, str(source.ty.dtype), f"unread{k}"))
            layouts.insert(k, implementation.layouts[distinct.index(j)])
    wide += own_params[len(distinct) :]
    layouts += implementation.layouts[len(distinct) :]
    new = tirx.PrimFunc(
        wide, implementation.func.body, implementation.func.ret_type, implementation.func.attrs
    )
    return _proved(tied, new, Implementation(implementation.op, new, tuple(layouts)))


def _proved(func: Any, new: Any, implementation: Implementation) -> Replacement | Refusal:
    before = lift_function(func)
    if isinstance(before, Refusal):
        return before
    layouts: Sequence[Layout | None] = implementation.layouts
    if not len(layouts) == len(func.params) == len(new.params):
        return Refusal(f"it has {len(func.params)} parameters, expected {len(new.params)}")
    buffers = (p for p in items(func.params) if is_buffer_var(p))
    if any(x is not None and x.rank != len(p.ty.shape)
           for x, p in zip(layouts, buffers, strict=False)):  # fmt: skip
        return Refusal("a buffer has another rank")
    proof = prove_moved(before, new, layouts)
    if isinstance(proof, Refusal):
        return proof
    required = {k: x for k, x in enumerate(layouts) if x is not None}
    why = f"{implementation.op} has a given implementation"
    return Replacement(new, LayoutConstraint(required, why, exact=True))
