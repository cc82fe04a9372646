"""TVM's fusion of the operators that no backend took."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import ir, relax

from ...analysis.lifting.tir.int64_extents import int64_extents
from ...analysis.lifting.tir.without_scopes import without_scopes
from ...analysis.support.ir.rewrite_functions import with_attrs
from ...analysis.support.pass_options import with_options
from .mutation.update_blocks import update_blocks
from .plain_branches import plain_branches
from .unfused_calls import without_unproved_fusions

#: TVM's option for the most operators of a function, 256 by default, and ours: LLVM took 12 s for a
#: function of 480 operators, and 2 s for it in parts, which ran as fast.
DEPTH, MOST = "relax.FuseOps.max_depth", 48


def fuse(mod: Any) -> Any:
    """The module with the remaining operators fused by TVM, at most `MOST` in a function."""
    joining = tvm.transform.module_pass(_sizes_joined, opt_level=0)
    passes = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), joining,
              relax.transform.FuseTIR()]  # fmt: skip
    plain = without_unproved_fusions(int64_extents(without_scopes(mod)))
    plain = plain_branches(update_blocks(plain))
    limit = {} if DEPTH in tvm.transform.PassContext.current().config else {DEPTH: MOST}
    with with_options(limit):
        return tvm.transform.Sequential(passes)(plain)


def _sizes_joined(mod: Any, _: Any) -> Any:
    """Pass the numbers of a group with its sizes; FuseTIR defines them twice otherwise, and fails.

    Before: `fused(p: int64, sizes: Shape([s]))`, called as `fused(p, shape([s]))`
    After:  `fused(sizes: Shape([s, p]))`, called as `fused(shape([s, p]))`
    """
    groups = {g.name_hint: f for g, f in mod.functions_items() if _has_numbers_and_sizes(f)}
    if not groups:
        return mod
    writer = _SizesJoined(mod, groups)
    functions = {}
    for gvar, func in mod.functions_items():
        name = gvar.name_hint
        if name in groups:
            functions[writer.joined[name]] = _joined(func)
        else:
            functions[gvar] = writer.visit_expr(func) if isinstance(func, relax.Function) else func
    return with_attrs(tvm.IRModule(functions, global_infos=mod.global_infos), mod)


def _has_numbers_and_sizes(func: Any) -> bool:
    """Return whether FuseOps has made a group with parameters of both kinds."""
    if not (isinstance(func, relax.Function) and "Primitive" in (func.attrs or {}) and func.params):
        return False
    return isinstance(func.params[-1].ty, relax.ShapeType) and any(map(_is_number, func.params))


def _is_number(param: Any) -> bool:
    return isinstance(param.ty, ir.PrimType) and str(param.ty.dtype) == "int64"


def _joined(func: Any) -> Any:
    *params, sizes = func.params
    values = [*sizes.ty.values, *filter(_is_number, params)]
    both = relax.Var(sizes.name, relax.ShapeType(values))
    others = [p for p in params if not _is_number(p)]
    return relax.Function([*others, both], func.body, func.ret_ty, func.is_pure, func.attrs)


@relax.expr_functor.mutator
class _SizesJoined(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the calls of groups."""

    def __init__(self, mod: Any, groups: dict[str, Any]) -> None:
        super().__init__(mod)
        self.groups = groups
        self.joined = {name: ir.GlobalVar(name) for name in groups}
        for name, func in groups.items():
            relax.expr._update_type(self.joined[name], _joined(func).ty)

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        name = call.op.name_hint if isinstance(call.op, ir.GlobalVar) else None
        if name not in self.groups:
            return call
        *params, _ = self.groups[name].params
        *args, sizes = call.args
        pairs = list(zip(params, args, strict=True))
        values = [*sizes.values, *(arg for param, arg in pairs if _is_number(param))]
        others = [arg for param, arg in pairs if not _is_number(param)]
        return relax.Call(self.joined[name], [*others, relax.ShapeExpr(values)])
