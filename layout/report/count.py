"""Count the layout conversions of activations in a module, and the bytes that they write.

A conversion is a copy in another memory order (`layout.access.layout_only`), as an operator, a
PrimFunc or a part of a fused function. Conversions of constants do not count, as they happen at
compile time; nor do unused ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from ...analysis.certify.structural_equality import ByStructure
from ...analysis.proposal.legalise import legalise
from ...analysis.support.ir.call_ops import op_name
from ..access.layout_only import LayoutOnlyBuffer, conversions_in
from ..graph.relax_graph import extents
from ..model.buffer_bytes import size_of
from .plan_report import Conversions

#: Relax operators that convert; the others are counted after they are legalised.
CONVERTING = frozenset({"relax.permute_dims", "relax.layout_transform"})


def count(mod: Any) -> Conversions:
    """Count the layout conversions of a module.

    Each call of a function counts, and both sides of a branch. A symbolic extent counts as 64.

    Args:
        mod: A Relax module, legalised or not, fused or not. Parameters from the attribute
            ``num_input`` on are weights: converting them is not counted.

    Returns:
        Their number and the bytes that they write.
    """
    conversions = located(mod).values()
    return Conversions(sum(c.number for c in conversions), sum(c.bytes for c in conversions))


def located(mod: Any) -> dict[tuple[str, str], Conversions]:
    """The conversions of a module by function and variable.

    The conversions inside a called function belong to its call.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"count: expected a tvm.IRModule, got {type(mod).__name__}")
    mod = relax.transform.DeadCodeElimination()(mod)
    counter = _Counter(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and "global_symbol" in (func.attrs or {}):
            inputs = int(func.attrs.get("num_input", len(func.params)))
            counter.at = (gvar.name_hint, "")
            counter.function(func, [k >= inputs for k in range(len(func.params))])
    return counter.conversions


class _Counter:
    """Walks the functions that are called, and tracks which variables are constant."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        self.conversions_in: Callable[[Any], tuple[LayoutOnlyBuffer, ...]] = ByStructure(
            conversions_in
        )
        self.conversions: dict[tuple[str, str], Conversions] = {}
        self.at = ("", "")
        self.constant: dict[Any, bool] = {}
        self.inside: list[Any] = []

    def function(self, func: Any, constant: Sequence[bool]) -> bool:
        """Count a call, and return whether its result is constant."""
        if any(func.same_as(f) for f in self.inside):
            return False  # a loop: its body counts once
        self.inside.append(func)
        self.constant.update(zip(func.params, constant, strict=True))
        result = self.sequence(func.body)
        self.inside.pop()
        return result

    def sequence(self, expr: Any) -> bool:
        if not isinstance(expr, relax.SeqExpr):
            return self.value(expr)
        for block in expr.blocks:
            for binding in block.bindings:
                if len(self.inside) == 1:
                    self.at = (self.at[0], str(binding.var.name))
                self.constant[binding.var] = self.value(binding.value)
        return self.value(expr.body)

    def value(self, expr: Any) -> bool:
        """Count an expression, and return whether it depends on constants only."""
        if isinstance(expr, relax.Var):
            return self.constant.get(expr, False)
        if isinstance(expr, relax.If):
            sides = [self.sequence(expr.true_branch), self.sequence(expr.false_branch)]
            return self.value(expr.cond) and all(sides)
        if isinstance(expr, relax.Tuple):
            return all([self.value(f) for f in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value)
        if isinstance(expr, tvm.ir.Call):
            return self.call(expr)
        return True

    def call(self, call: Any) -> bool:
        name = op_name(call)
        callee = self.callee(call.op)
        if isinstance(callee, relax.Function):
            return self.function(callee, [self.value(a) for a in call.args])
        if name.startswith("relax.call_tir"):
            func, operands = self.callee(call.args[0]), call.args[1].fields
        elif name in CONVERTING:
            return self.operator(call)
        else:
            return all([self.value(a) for a in call.args])
        constant = [self.value(a) for a in operands]
        if isinstance(func, tirx.PrimFunc):
            self.add(self.conversions_in(func), constant)
        return all(constant)

    def operator(self, call: Any) -> bool:
        """Count a converting operator; one that TVM cannot lower counts with all its operands."""
        operand = call.args[0]
        constant = [self.value(operand)]
        try:
            func = _lowered(call)
        except RuntimeError:  # a ScheduleError, as of a bool
            size = size_of(extents(operand.ty.shape) or (), str(operand.ty.dtype))
            self.add([LayoutOnlyBuffer(size, frozenset([0]))], constant)
            return all(constant)
        if func is not None:
            self.add(self.conversions_in(func), constant)
        return all(constant)

    def callee(self, expr: Any) -> Any:
        return self.mod[expr] if isinstance(expr, tvm.ir.GlobalVar) else None

    def add(self, buffers: Sequence[LayoutOnlyBuffer], constant: Sequence[bool]) -> None:
        for buffer in buffers:
            if not all(constant[k] for k in buffer.sources if k < len(constant)):
                old = self.conversions.get(self.at, Conversions())
                self.conversions[self.at] = Conversions(old.number + 1, old.bytes + buffer.bytes)


def _lowered(call: Any) -> Any:
    """The PrimFunc of an operator that converts, over a fresh variable."""
    param = relax.Var("x", call.args[0].ty)
    legalised = legalise(tvm.ir.Call(call.op, [param, *call.args[1:]], call.attrs), [param])
    return None if legalised is None else legalised.func
