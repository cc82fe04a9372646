"""The calls of a module that depend on constants only.

A creator of more than 1024 elements, such as ``R.zeros``, becomes no constant: it is fused into
the operators that read it, and would enlarge the library. It is computed where it is folded into
others.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import Op as IrOp

from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.support.ir.call_ops import is_call_tir
from ....analysis.support.tvm_compat import GenericConst
from .narrow_casts import is_narrow_cast

#: Bytes of a creator that is computed, at most.
LARGEST = 64 << 20
#: Elements of a creator that becomes a constant, at most: the limit of TVM's FoldConstant.
SMALL = 1024
_NUMBERS = (tvm.tirx.IntImm, tvm.tirx.FloatImm)


def constant_calls(mod: Any) -> NodeDict[Any]:
    """Variables with the constants and calls that they are bound to, in the order of the program.

    They are those that become constants, and what these are computed from.
    """
    known: NodeDict[Any] = NodeDict()
    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            _find(mod, func, known)
    return _needed(known)


def _find(mod: Any, func: Any, known: NodeDict[Any]) -> None:
    """Add the variables that depend on constants only, and what they are bound to."""

    def is_known(arg: Any) -> bool:
        if isinstance(arg, relax.Var):
            return arg in known
        if isinstance(arg, (relax.Tuple, relax.ShapeExpr)):
            return all(map(is_known, parts(arg)))
        return isinstance(arg, (GenericConst, *_NUMBERS))

    def visit(binding: Any) -> None:
        value = binding.value
        if isinstance(value, GenericConst) or (
            is_foldable(mod, value) and all(map(is_known, operands(value)))
        ):
            known[binding.var] = value

    tvm_ffi.structural_walk(func, (relax.VarBinding, visit))


def may_fold(mod: Any) -> bool:
    """Whether TVM's FoldConstant may change a module.

    It replaces variables of constants, calls whose operands are all constants, and shapes. It
    lowers operators whose sizes are data, and loses the PrimFunc of their shapes: it does not run
    on a module with such.
    """
    found = apart = False

    def visit(binding: Any) -> None:
        nonlocal found, apart
        value = binding.value
        found = found or isinstance(value, GenericConst) or _may_be_folded(value)
        apart = apart or _has_shape_of_data(value)

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function) and not apart:
            tvm_ffi.structural_walk(func, (relax.VarBinding, visit))
    return found and not apart


def _has_shape_of_data(call: Any) -> bool:
    if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, IrOp):
        return False
    return all(call.op.get_attr(name) for name in ("FDataDependent", "FLegalize"))


def _may_be_folded(call: Any) -> bool:
    if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, IrOp):
        return False
    if "shape" in call.op.name and "reshape" not in call.op.name:
        return True
    if shape_of(call) is not None and is_large_creator(call):
        return False
    return all(map(_is_constant, operands(call)))


def _is_constant(arg: Any) -> bool:
    if isinstance(arg, (relax.Tuple, relax.ShapeExpr)):
        return all(map(_is_constant, parts(arg)))
    return not isinstance(arg, (relax.Var, tvm.ir.Call, relax.TupleGetItem))


def _needed(known: NodeDict[Any]) -> NodeDict[Any]:
    """What becomes a constant, and what that is computed from."""
    read: NodeDict[Any] = NodeDict()
    for var, value in reversed(known.items()):
        if isinstance(value, tvm.ir.Call) and (var in read or not is_large_creator(value)):
            read[var] = value
            for arg in _tensors(value):
                read[arg] = arg
    out: NodeDict[Any] = NodeDict()
    for var, value in known.items():
        if var in read:
            out[var] = value
    return out


def is_foldable(mod: Any, call: Any) -> bool:
    """Whether a call computes one tensor of known shape, and nothing else."""
    if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, IrOp) or shape_of(call) is None:
        return False
    if is_narrow_cast(call) or (is_large_creator(call) and _bytes(call) > LARGEST):
        return False
    if is_call_tir(call):
        return len(call.args) == 2 and isinstance(mod[call.args[0]], tvm.tirx.PrimFunc)
    return bool(call.op.get_attr("FPurity")) and call.op.get_attr("FLegalize") is not None


def operands(call: Any) -> list[Any]:
    return parts(call.args[1]) if is_call_tir(call) else items(call.args)


def parts(arg: Any) -> list[Any]:
    return items(arg.fields if isinstance(arg, relax.Tuple) else arg.values)


def _tensors(call: Any) -> list[Any]:
    """The operands that are tensors, with those in tuples."""
    flat = [parts(arg) if isinstance(arg, relax.Tuple) else [arg] for arg in operands(call)]
    return [arg for args in flat for arg in args if isinstance(arg.ty, relax.TensorType)]


def is_large_creator(call: Any) -> bool:
    """Whether a call makes many elements out of none, or of one."""
    return math.prod(shape_of(call) or ()) > SMALL and all(a.ty.ndim == 0 for a in _tensors(call))


def shape_of(call: Any) -> tuple[int, ...] | None:
    """The extents of a call's result; None unless it is one tensor and they are known."""
    if not isinstance(call.ty, relax.TensorType) or not isinstance(call.ty.shape, relax.ShapeExpr):
        return None
    extents = items(call.ty.shape.values)
    known = [int(e.value) for e in extents if isinstance(e, tvm.tirx.IntImm)]
    return tuple(known) if len(known) == len(extents) else None


def _bytes(call: Any) -> int:
    bits: int = tvm.DataType(str(call.ty.dtype)).bits
    return math.prod(shape_of(call) or ()) * max(1, bits // 8)
