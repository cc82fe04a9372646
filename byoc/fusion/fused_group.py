"""Some bindings of a dataflow block as one PrimFunc, and an operator in their place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis import Constant, OpInfo
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.proposal.call_op import NotBuilt, call_op


@dataclass(frozen=True)
class FusedGroup:
    """Bindings of calls of PrimFuncs, in order, of which only the last result is read outside."""

    bindings: tuple[Any, ...]

    @property
    def result(self) -> Any:
        """The variable of the result."""
        return self.bindings[-1].var

    @cached_property
    def inputs(self) -> list[Any]:
        """The tensors that the calls read, in order, without results of calls of the group."""
        own: NodeDict[bool] = NodeDict()
        for binding in self.bindings:
            own[binding.var] = True
        found: list[Any] = []
        for binding in self.bindings:
            for arg in binding.value.args[1].fields:
                if isinstance(arg.ty, relax.TensorType) and not own.get(arg):
                    if not any(arg.same_as(f) for f in found):
                        found.append(arg)
        return found


def fused(mod: Any, group: FusedGroup) -> Any:
    """Return the PrimFunc that computes the result of a group from its inputs.

    It is None if a size that a call passes is not an extent of an input.
    """
    if not _sized(group):
        return None
    called = {binding.value.args[0]: mod[binding.value.args[0]] for binding in group.bindings}
    builder = relax.BlockBuilder(tvm.IRModule(called))
    inner, outer = (
        [relax.Var(f"{name}{k}", x.ty) for k, x in enumerate(group.inputs)] for name in "px"
    )
    with builder.function("group", inner, {"Primitive": 1}, private=True):
        with builder.dataflow():
            out = builder.emit_output(_emitted(builder, group, inner))
        gvar = builder.emit_func_output(out)
    with builder.function("main", outer):
        with builder.dataflow():
            out = builder.emit_output(relax.Call(gvar, outer))
        builder.emit_func_output(out)
    new = relax.transform.FuseTIR()(builder.get())
    known = {g.name_hint for g in called}
    return next(
        f for g, f in new.functions_items()
        if isinstance(f, tirx.PrimFunc) and g.name_hint not in known
    )  # fmt: skip


def _emitted(builder: Any, group: FusedGroup, params: list[Any]) -> Any:
    """Emit the calls of a group over new parameters; return the last call."""
    values: NodeDict[Any] = NodeDict()
    for x, param in zip(group.inputs, params, strict=True):
        values[x] = param
    for binding in group.bindings:
        call = binding.value
        arguments = [values[a] if a in values else a for a in call.args[1].fields]
        new = relax.call_tir(call.args[0], relax.Tuple(arguments), out_ty=call.ty)
        if binding is group.bindings[-1]:
            return new
        values[binding.var] = builder.emit(new)
    raise ValueError("a group has at least one binding")


def _sized(group: FusedGroup) -> bool:
    """Whether all symbols of sizes are extents of inputs."""
    extents = [e for x in group.inputs for e in x.ty.shape.values if isinstance(e, tirx.Var)]
    found: list[Any] = []
    for binding in group.bindings:
        sizes = [a for a in binding.value.args[1].fields if not isinstance(a.ty, relax.TensorType)]
        for part in (*sizes, binding.value.ty):
            tvm_ffi.structural_walk(part, (tirx.Var, found.append))
    symbols = [v for v in found if type(v.ty).__name__ == "PrimType"]
    return all(any(v.same_as(e) for e in extents) for v in symbols)


def operator_call(info: OpInfo, group: FusedGroup) -> Any:
    """Return the call of an operator that computes the result of a group.

    Raises:
        NotBuilt: The operator reads more than the group's inputs, or has symbolic attributes.
    """
    operands = []
    for operand in info.operands:
        if isinstance(operand, Constant) or operand >= len(group.inputs):
            raise NotBuilt("an operand is not an input of the group")
        operands.append(group.inputs[operand])
    if any(isinstance(v, (tvm.ir.Expr, tuple, list)) for v in info.attrs.values()):
        raise NotBuilt("an attribute is not a plain value")
    return call_op(info.name, operands, dict(info.attrs), str(operands[0].ty.dtype))
