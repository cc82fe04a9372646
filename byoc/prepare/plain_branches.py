"""Make dataflow blocks inside of branches plain, since TVM's FuseOps fails on some of them.

    Before: if c: with R.dataflow(): y = relu(x); R.output(y)
    After:  if c: y = relu(x)

FuseOps fuses nothing inside of branches. It aborts where such a block matches a shape.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ...analysis.support.ir.rewrite_functions import with_attrs
from .mutation.cast_spans import with_spans_of


def plain_branches(mod: Any) -> Any:
    """Return the module without dataflow blocks inside of branches; ``mod`` is not changed."""
    writer = _PlainBranches(mod)
    functions = {
        gvar: writer.visit_expr(func) if isinstance(func, relax.Function) else func
        for gvar, func in mod.functions_items()
    }
    out = with_attrs(tvm.IRModule(functions, global_infos=mod.global_infos), mod)
    return with_spans_of(mod, out)


@relax.expr_functor.mutator
class _PlainBranches(relax.PyExprMutator):  # type: ignore[misc]
    def visit_if_(self, branching: Any) -> Any:
        return relax.If(
            branching.cond, _plain(branching.true_branch), _plain(branching.false_branch)
        )


def _plain(branch: Any) -> Any:
    """Return a branch without dataflow blocks, as the body of a function of what it reads."""
    func = relax.Function(relax.analysis.free_vars(branch), branch, branch.ty)
    return relax.transform.ToNonDataflow()(tvm.IRModule({"branch": func}))["branch"].body
