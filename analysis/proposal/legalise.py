"""Legalise one call of a Relax operator.

``relax.transform.LegalizeOps`` calls the operator's ``FLegalize`` attribute in a binding block and
visits the result. If that is a single ``call_tir`` with no other bindings, the pass changes nothing
more, and it is enough to call the attribute: that takes half the time of a pass over a module built
for the purpose. Over known shapes not even the builder is needed in most cases, see
`analysis.proposal.expression`. Any other operator goes through the passes; ``DispatchSortScan``
lowers a few that have no ``FLegalize``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from ..lifting.tir.node import items
from ..support.ir.call_ops import is_call_tir, op_name
from .expression import legalise_expression
from .failed_call import why_not_dispatched, why_not_lowered
from .lowering import (
    lower_attention,
    lower_max_pool,
    lower_missing,
    lower_scatter,
    lower_take,
)
from .lowering.widen_orders import widen_orders

#: Operators that ``DispatchSortScan`` lowers and ``LegalizeOps`` does not.
DISPATCHED = frozenset(f"relax.{n}" for n in ("argsort", "cumprod", "cumsum", "sort", "topk"))
lower_attention.register()
lower_max_pool.register()
lower_missing.register()
lower_scatter.register()
lower_take.register()


@dataclass(frozen=True)
class Legalised:
    """A PrimFunc, and the tensors and scalars with which ``call_tir`` calls it.

    ``rule`` is the ``FLegalize`` of ``op`` if the PrimFunc depends on nothing else.
    """

    func: Any
    args: tuple[Any, ...]
    scalars: tuple[Any, ...] = ()
    op: Any = None
    rule: Any = None


def legalise(call: Any, params: Sequence[Any], rule: Any = None) -> Legalised | None:
    """Return the only ``call_tir`` that a call over `params` lowers to, or None if there are more.

    A rule replaces the operator's ``FLegalize``, unless more than the rule is needed. An error that
    the operator raises for invalid arguments is passed on.
    """
    builder = relax.BlockBuilder()
    call = builder.normalize(call)
    rule = rule or call.op.get_attr("FLegalize")
    if rule is None:
        return _by_pass(call, params)
    parts = legalise_expression(rule, call)
    if parts is not None:
        return Legalised(*parts, op=call.op, rule=rule)
    return _directly(builder, call, rule) or _by_pass(call, params)


def _directly(builder: Any, call: Any, rule: Any) -> Legalised | None:
    """The result of ``FLegalize``, if ``LegalizeOps`` would do nothing else."""
    if not _shape_known(call.ty) or not all(_shape_known(a.ty) for a in call.args):
        return None
    builder._begin_binding_block()
    try:
        out = rule(builder, call)
    finally:  # a builder that is destroyed with an open block says so on standard error
        block = builder._end_block()
    if len(block.bindings) or not is_call_tir(out):
        return None
    return Legalised(builder.get()[out.args[0]], *_arguments(out, {}), op=call.op, rule=rule)


def _arguments(call: Any, values: Mapping[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The tensors and scalars of a ``call_tir``, with bound variables replaced by their values."""
    tensors = tuple(_element(values.get(a, a) if values else a) for a in items(call.args[1].fields))
    return tensors, tuple(items(call.args[2].values)) if len(call.args) > 2 else ()


def _element(value: Any) -> Any:
    """The element that a projection of a tuple selects: ``(a, b)[1]`` is ``b``."""
    item = isinstance(value, relax.TupleGetItem)
    return value.tuple_value.fields[value.index] if item else value


def _shape_known(ty: Any) -> bool:
    if isinstance(ty, relax.TensorType):
        return isinstance(ty.shape, relax.ShapeExpr)
    if isinstance(ty, tvm.ir.TupleType):
        return all(map(_shape_known, ty.fields))
    return isinstance(ty, tvm.ir.PrimType) or (
        isinstance(ty, relax.ShapeType) and ty.values is not None
    )


def _by_pass(call: Any, params: Sequence[Any]) -> Legalised | None:
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    mod = legalise_module(builder.get())
    values = {b.var: b.value for block in mod["main"].body.blocks for b in block.bindings}
    calls = [v for v in values.values() if isinstance(v, tvm.ir.Call)]
    if len(calls) != 1 or not is_call_tir(calls[0]):
        return None
    return Legalised(mod[calls[0].args[0]], *_arguments(calls[0], values))


def legalise_module(mod: Any) -> Any:
    """Return the module with its operators lowered to PrimFuncs: legalised, and scans dispatched.

    Scans are dispatched for the current target, or for the CPU if there is none. Sorts of dtypes
    that TVM's sort does not take are widened.

    Raises:
        NotLowered: TVM cannot lower a call.
    """
    mod = widen_orders(mod)
    try:
        mod = relax.transform.LegalizeOps()(mod)
    except Exception as error:  # TVM's rules raise various types
        raise why_not_lowered(mod, error) from error
    if not dispatches(mod):
        return mod
    try:
        with tvm.target.Target.current(allow_none=True) or tvm.target.Target("llvm"):
            return relax.backend.DispatchSortScan()(mod)
    except Exception as error:  # of various types, without the call
        raise why_not_dispatched(mod, DISPATCHED, error) from error


def dispatches(mod: Any) -> bool:
    """Whether the module has an operator that ``DispatchSortScan`` lowers."""
    present = False

    def visit(expr: Any) -> None:
        nonlocal present
        present |= op_name(expr) in DISPATCHED

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return present
