"""Fuse the gather of matrices of experts into the product of rows that reads them.

Before: m = R.call_tir(cls.f, (w, ids)); y = R.call_tir(cls.g, (x, m))
After:  y = R.call_tir(cls.f_g, (w, ids, x))

The matrix of each row is then never stored. Two calls are fused if `expert_scheduled` has a kernel.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from .....analysis.blocks.tir import static
from .....analysis.lifting.tir.node import items
from .....analysis.support.ir.call_ops import is_call_tir
from .....analysis.support.ir.rewrite_functions import rewrite_functions
from ....fusion.fused_group import FusedGroup, fused
from .expert_kernel import expert_scheduled
from .expert_product import NUMBERS, RANK


def fuse_experts(mod: Any) -> Any:
    """Return the module with such calls fused; the module itself if it has none."""
    funcs = [f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    if not any(map(_gathers, funcs)):
        return mod
    writer = _Writer(mod)
    out = rewrite_functions(mod, writer)
    return relax.transform.DeadCodeElimination()(out) if writer.count else mod


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces products whose matrices are gathered by fused ones."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod, self.count = mod, 0

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call) or not hasattr(call.ty, "dtype"):
            return call
        for arg in call.args[1].fields:
            gather: Any = self.lookup_binding(arg) if isinstance(arg, relax.Var) else None
            if is_call_tir(gather) and _gathers(self.mod[gather.args[0]]):
                new = self.fused(arg, gather, call)
                if new is not None:
                    return new
        return call

    def fused(self, matrices: Any, gather: Any, call: Any) -> Any | None:
        """The call of one PrimFunc for two calls; None if it has no kernel."""
        result = relax.Var("result", call.ty)
        group = FusedGroup((relax.VarBinding(matrices, gather), relax.VarBinding(result, call)))
        func = fused(self.mod, group)
        if func is None or not expert_scheduled(func):
            return None
        self.count += 1
        names = [c.args[0].name_hint for c in (gather, call)]
        gvar = self.builder_.add_func(func.without_attr("global_symbol"), "_".join(names))
        return relax.call_tir(gvar, relax.Tuple(group.inputs), out_ty=call.ty)


def _gathers(func: Any) -> bool:
    """Whether a PrimFunc may gather matrices: by numbers, one matrix for each."""
    if not isinstance(func, tirx.PrimFunc):
        return False
    shape = [static(e) for e in items(getattr(getattr(func.params[-1], "ty", None), "shape", ()))]
    if len(shape) != RANK:
        return False
    return any(
        str(p.ty.dtype) in NUMBERS and [static(e) for e in items(p.ty.shape)] == shape[:1]
        for p in func.params[:-1] if hasattr(p.ty, "shape")
    )  # fmt: skip
