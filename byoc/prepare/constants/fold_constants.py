"""Fold what depends on constants only, with one build for all of it.

Before: r = R.rsqrt(v); s = R.multiply(gamma, r); y = R.multiply(x, s)    v and gamma are constants
After:  y = R.multiply(x, R.const(...))

TVM's FoldConstant builds a function for each call that it folds, 40 ms each; a detector has 700.
Here such calls are lowered together, equal functions are one, and these are built at once.
FoldConstant folds the rest, such as shapes. It lowers each operator to see whether it can, which
takes a millisecond each, so it does not run where nothing is left to fold.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.lifting.tir.without_scopes import without_scopes
from ....analysis.proposal.legalise import legalise_module
from ....analysis.support.ir.call_ops import is_call_tir
from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.mutate import mutated
from ..unwritten.defined_loops import defined_loops
from .constant_calls import (
    constant_calls,
    is_foldable,
    is_large_creator,
    may_fold,
    operands,
    parts,
    shape_of,
)
from .narrow_casts import fold_narrow_casts

#: Each function runs once, so compiling it takes longer than what more optimisation would save.
TARGET = {"kind": "llvm", "opt-level": 1}


def fold_constants(mod: Any) -> Any:
    """The module with all folded that depends on constants only; nothing unused."""
    cast: Any = mod
    while cast is not None:  # what a cast gives may be what others depend on
        mod = cast
        constants = _constants(mod)
        if constants.items():
            mod = mutated(mod, _Writer(mod, constants), constants=True)
        cast = fold_narrow_casts(mod)
    if may_fold(mod):
        with suppress(ValueError):  # an assertion fails: the code fails where it is reached
            mod = relax.transform.FoldConstant()(mod)
    return relax.transform.DeadCodeElimination()(mod)


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces what was computed by its constants, and drops what nothing needs any more."""

    def __init__(self, mod: Any, constants: NodeDict[Any]) -> None:
        super().__init__(mod)
        self.constants = constants
        self.values: NodeDict[Any] = NodeDict()  # of variables that nothing needs any more

    def visit_var_binding_(self, binding: Any) -> None:
        constant = self.constants.get(binding.value)
        if constant is None and isinstance(binding.value, GenericConst):
            constant = binding.value
        if constant is not None and isinstance(binding.var, relax.DataflowVar):
            self.values[binding.var] = constant
        else:
            super().visit_var_binding_(binding)

    def visit_dataflow_var_(self, var: Any) -> Any:
        constant = self.values.get(var)
        return super().visit_dataflow_var_(var) if constant is None else constant

    def visit_call_(self, call: Any) -> Any:
        constant = self.constants.get(call)
        return super().visit_call_(call) if constant is None else constant


def _constants(mod: Any) -> NodeDict[Any]:
    """The results of calls that depend on constants only."""
    known = constant_calls(mod)
    out: NodeDict[Any] = NodeDict()
    if not any(isinstance(value, tvm.ir.Call) for value in known.values()):
        return out
    for value, result in zip(known.values(), _computed(_separate(mod, known)), strict=True):
        folded = isinstance(value, tvm.ir.Call) and not is_large_creator(value)
        if folded and result is not None:
            out[value] = relax.const(result)
    return out


def _separate(mod: Any, known: NodeDict[Any]) -> Any:
    """A lowered module whose main returns a tuple of all these values."""
    builder = relax.BlockBuilder()
    new: NodeDict[Any] = NodeDict()

    def renamed(arg: Any) -> Any:
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([renamed(field) for field in parts(arg)])
        if isinstance(arg, tvm.ir.GlobalVar):
            return builder.add_func(mod[arg], arg.name_hint)
        return new[arg] if isinstance(arg, relax.Var) else arg

    with builder.function("main", []):
        with builder.dataflow():
            for var, value in known.items():
                if isinstance(value, tvm.ir.Call):
                    args = [renamed(arg) for arg in items(value.args)]
                    value = relax.Call(value.op, args, value.attrs, value.ty_args)
                new[var] = builder.emit(value)
            out = builder.emit_output(relax.Tuple(new.values()))
        builder.emit_func_output(out)
    return legalise_module(builder.get())


def _computed(mod: Any) -> list[Any]:
    """The tensors that the main function of a module returns; None for those not computed here."""
    built = _built(mod)
    values: NodeDict[Any] = NodeDict()
    results: list[Any] = []

    def tensor(arg: Any) -> Any:
        return array_of(arg) if isinstance(arg, GenericConst) else values.get(arg)

    def visit(binding: Any) -> None:
        value = binding.value
        if isinstance(value, relax.Tuple):
            results[:] = map(tensor, parts(value))
        elif isinstance(value, (GenericConst, relax.Var)):
            values[binding.var] = tensor(value)
        elif is_call_tir(value) and is_foldable(mod, value):
            args = [tensor(arg) for arg in operands(value)]
            kernel = built.get(value.args[0].name_hint)
            if kernel is not None and all(arg is not None for arg in args):
                result = tvm.runtime.empty(shape_of(value), str(value.ty.dtype))
                with suppress(ValueError):  # an assertion fails: the call may not be reached
                    kernel(*args, result)
                    values[binding.var] = result

    tvm_ffi.structural_walk(mod["main"], (relax.VarBinding, visit))
    return results


def _built(mod: Any) -> dict[str, Any]:
    """The PrimFuncs of a module, compiled for the CPU, without those that do not compile for it."""
    funcs = {g.name_hint: f.with_attr("global_symbol", g.name_hint)
             for g, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}  # fmt: skip
    mod = defined_loops(without_scopes(tvm.IRModule(funcs)))
    try:
        built = tvm.compile(mod, target=TARGET)
        return {name: built[name] for name in funcs}
    except Exception:  # TVM's passes raise various types; one function may be for a GPU
        alone: dict[str, Any] = {}
        for name in funcs:
            with suppress(Exception):
                alone[name] = tvm.compile(tvm.IRModule({name: mod[name]}), target=TARGET)[name]
        return alone
