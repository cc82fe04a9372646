"""Refuse modules that TVM builds no program from: missing functions, operands that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.tir.node import items
from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.origin import node_of
from ...analysis.support.wording import plural
from .call_extents import unequal_extents
from .unused import Called


def check_module(mod: Any, what: str) -> None:
    """Check that a module is one, defines what it calls, and calls PrimFuncs by what they take.

    Args:
        mod: The module.
        what: The caller, for errors.

    Raises:
        TypeError: It is not an IRModule.
        ValueError: A function is missing, or a call contradicts its PrimFunc.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"{what}: expected a tvm.IRModule, got {type(mod).__name__}")
    missing = sorted(Called().in_module(mod) - {g.name_hint for g, _ in mod.functions_items()})
    if missing:
        raise ValueError(f"{what}: the module calls {', '.join(missing)}, which it does not define")
    for gvar, func in mod.functions_items():
        for binding, call in _calls(func):
            callee = mod.functions.get(call.args[0])
            wrong = _contradiction(callee, call) if isinstance(callee, tirx.PrimFunc) else None
            if wrong is not None:
                node = f" at node {node_of(binding)}" if node_of(binding) else ""
                raise ValueError(f"{what}: {gvar.name_hint}{node} calls {call.args[0].name_hint} "
                                 f"with {wrong}; mend the call or the PrimFunc")  # fmt: skip


def _calls(func: Any) -> Iterator[tuple[Any, Any]]:
    """Each ``call_tir`` of a Relax function with its binding."""
    found: list[Any] = []
    if isinstance(func, relax.Function):
        tvm_ffi.structural_walk(func, (relax.VarBinding, found.append))
    for binding in found:
        call = binding.value
        if isinstance(call, relax.Call) and is_call_tir(call):
            yield binding, call


def _contradiction(func: Any, call: Any) -> str | None:
    """What of a call its PrimFunc does not take; None if nothing is known to be wrong."""
    _, arguments, *shape = call.args
    if not hasattr(arguments, "fields") or not all(isinstance(s, relax.ShapeExpr) for s in shape):
        return None  # their number is not known
    sizes = [size for s in shape for size in items(s.values)]
    operands = [(f"operand {k}", x.ty) for k, x in enumerate(items(arguments.fields))]
    types = items(call.ty_args[0].fields) if hasattr(call.ty_args[0], "fields") else call.ty_args
    results = [(f"result {k}", ty) for k, ty in enumerate(types)]
    params = items(func.params)
    if len(params) != len(operands) + len(results) + len(sizes):
        counts = [(operands, "operand"), (results, "result"), (sizes, "size")]
        *first, last = (plural(len(part), noun) for part, noun in counts)
        return f"{', '.join(first)} and {last}, where it has {plural(len(params), 'parameter')}"
    for param, (place, ty) in zip(params, operands + results, strict=False):
        if is_buffer_var(param) and _differ(param.ty, ty):
            return (
                f"{_shown(ty)} as {place}, where its parameter {param.name} is {_shown(param.ty)}"
            )
    unequal = unequal_extents(func, call, certain=True)
    return None if unequal is None else f"extents that differ: {unequal}"


def _differ(buffer: Any, ty: Any) -> bool:
    """Whether a tensor's dtype, rank or literal extents are not those of a buffer."""
    if not isinstance(ty, relax.TensorType):
        return True
    if str(ty.dtype) not in ("", "void", str(buffer.dtype)):
        return True
    extents = items(buffer.shape)
    if ty.ndim not in (-1, len(extents)):
        return True
    values = getattr(ty.shape, "values", None)
    return values is not None and any(
        isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and a.value != b.value
        for a, b in zip(extents, items(values), strict=True)
    )


def _shown(ty: Any) -> str:
    """A type in one line."""
    if not hasattr(ty, "dtype"):
        return type(ty).__name__
    shape = getattr(ty.shape, "values", ty.shape)
    sizes = [str(e.value if isinstance(e, tirx.IntImm) else e) for e in items(shape or [])]
    return f"{ty.dtype}({', '.join(sizes)})"
