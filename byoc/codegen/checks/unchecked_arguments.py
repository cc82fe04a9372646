"""Kernels that only get tensors which the virtual machine made do not check them.

    Before: lv = R.call_tir(f, (x, w)); out = R.call_tir(g, (lv,)), where f and g check arguments
    After:  g, which only gets tensors that the module itself allocates, checks none

TVM's entry to a kernel compares the rank, type, extents, strides, alignment and device of each
argument with what the kernel was compiled for, and says what is wrong. For kernels of many
arguments that is most of the code: fused concats of 20 tensors took 2.7 x the time to compile.
What comes from a caller, or from a function that may return anything, is still checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx import compilation_pipeline

from ....analysis.blocks.tir import static
from ....analysis.lifting.tir.node import items
from ....analysis.support.tvm_compat import GenericConst

#: The attribute of a PrimFunc whose arguments need no check, and the name of the passes that
#: leave it out.
UNCHECKED, PIPELINE = "opinfo.own_arguments", "opinfo"
_ALLOCATING = ("relax.call_tir", "relax.call_dps_packed")
_Type = tuple[str, tuple[int, ...]]


def with_unchecked_arguments(mod: Any) -> Any:
    """Return a module that marks such PrimFuncs; ``mod`` is not changed.

    The types of all arguments must be static and equal to those of the parameters.
    """
    uses = _PrimFuncUses()
    for func in mod.functions.values():
        uses.read(func)
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and _unasserting(func):
            params = [_type(p.ty) for p in items(func.params)]
            if uses.only(gvar.name_hint, params):
                out.update_func(gvar, func.with_attr(UNCHECKED, True))
    return out


@dataclass
class _PrimFuncUses:
    """How the functions of a module use its PrimFuncs.

    Attributes:
        named: How often each is named.
        calls: The calls of each by `call_tir`: the types of arguments and results; None if one of
            them may come from elsewhere.
    """

    named: dict[str, int] = field(default_factory=dict)
    calls: dict[str, list[list[_Type | None] | None]] = field(default_factory=dict)

    def read(self, func: Any) -> None:
        """Add the uses in a function."""

        def count(gvar: Any) -> None:
            self.named[gvar.name_hint] = self.named.get(gvar.name_hint, 0) + 1

        tvm_ffi.structural_walk(func.body, [(tvm.ir.GlobalVar, count)])
        if not isinstance(func, relax.Function):
            return
        bindings: list[Any] = []
        tvm_ffi.structural_walk(func.body, [(relax.VarBinding, bindings.append)])
        made = _made({b.var: b.value for b in bindings})
        for binding in bindings:
            callee = _callee(binding.value)
            if callee is not None:
                args = _arguments(binding.value)
                own = args is not None and all(made(a) for a in args)
                types = [_type(t) for t in (*(a.ty for a in args or ()), *_results(binding.value))]
                self.calls.setdefault(callee, []).append(types if own else None)

    def only(self, name: str, params: Sequence[_Type | None]) -> bool:
        """Return whether a PrimFunc is only called, and with own arguments of these types."""
        calls = self.calls.get(name, [])
        return bool(calls) and len(calls) == self.named[name] and None not in params and all(
            types == params for types in calls)  # fmt: skip


def _made(values: dict[Any, Any]) -> Any:
    """Return a function that says whether an expression is a tensor that the module allocates.

    TVM makes a view of what a PrimFunc only reshapes: one that has one operand, of as many elements
    as the result. So the operand must be allocated too.
    """
    known: dict[Any, bool] = {}

    def made(expr: Any) -> bool:
        while isinstance(expr, relax.Var) and expr in values and expr not in known:
            value = values[expr]
            if isinstance(value, relax.TupleGetItem):
                value = value.tuple_value
            if not isinstance(value, relax.Var):
                known[expr] = _allocated(value)
                break
            expr = value
        return isinstance(expr, GenericConst) or known.get(expr, False)

    def _allocated(value: Any) -> bool:
        args = _arguments(value)
        if args is None:
            return False
        if _callee(value) is None or len(args) != 1:
            return True
        (before,), after = (_type(a.ty) for a in args), [_type(t) for t in _results(value)]
        sizes = [None if t is None else prod(t[1]) for t in (before, *after)]
        return (None not in sizes and sizes[0] not in sizes[1:]) or made(args[0])

    return made


def _callee(value: Any) -> str | None:
    """Return the name of the PrimFunc that an expression calls by `call_tir`."""
    if _arguments(value) is None or not isinstance(value.args[0], tvm.ir.GlobalVar):
        return None
    return str(value.args[0].name_hint)


def _arguments(value: Any) -> list[Any] | None:
    """Return the arguments of a call whose results are allocated for it; None for others."""
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    args = items(value.args)
    if value.op.name not in _ALLOCATING or not isinstance(args[1], relax.Tuple):
        return None
    if len(args) > 2:  # with numbers of shapes
        return None
    return items(args[1].fields)


def _results(value: Any) -> list[Any]:
    (ty,) = items(value.ty_args)
    return items(ty.fields) if isinstance(ty, relax.TupleType) else [ty]


def _type(ty: Any) -> _Type | None:
    """Return the dtype and extents of a tensor or buffer; None unless all extents are numbers."""
    shape = getattr(ty, "shape", None)
    extents = items(getattr(shape, "values", shape)) if shape is not None else None
    if extents is None or any(static(e) is None for e in extents):
        return None
    return str(ty.dtype), tuple(int(static(e) or 0) for e in extents)


def _unasserting(func: Any) -> bool:
    """Return whether a PrimFunc that only its module names asserts nothing itself."""
    asserts: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(tirx.AssertStmt, asserts.append)])
    return not asserts and "global_symbol" not in (func.attrs or {})


def _pipeline() -> tuple[Any, Any, Any]:
    """TVM's passes for PrimFuncs, and one that drops the checks of what is marked."""
    lower, *finish = compilation_pipeline.get_tir_pipeline("default")

    @tvm.transform.module_pass(opt_level=0, name="opinfo.DropChecks")  # type: ignore[untyped-decorator]
    def lowered(mod: Any, _: Any) -> Any:
        mod = lower(mod)
        own = {g: f for g, f in mod.functions_items() if UNCHECKED in (f.attrs or {})}
        if not own:
            return mod
        out = mod.clone()
        for gvar, func in tirx.transform.SkipAssert()(tvm.IRModule(own)).functions_items():
            out.update_func(gvar, func.without_attr(UNCHECKED))
        return out

    return lowered, *finish


compilation_pipeline.register_tir_pipeline(PIPELINE, _pipeline)
