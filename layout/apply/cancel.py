"""Cancel and fuse layout conversions that are Relax operators.

    Before: y = R.permute_dims(x, [0, 2, 3, 1]); z = R.permute_dims(y, [0, 3, 1, 2])
    After:  z = x

Two ``layout_transform`` cancel only if their maps are proved to compose to the identity and neither
pads. In contrast, ``relax.transform.OptimizeLayoutTransform`` cancels any two of equal shape.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.index_map import prove_identity
from ...analysis.support.tvm_compat import sym
from ..graph.relax_graph import extents, may_write


def cancel_layout_transforms(mod: Any) -> Any:
    """Return the module without pairs of conversions that are provably inverse.

    Args:
        mod: A Relax module; it is not changed.

    Returns:
        The module without them.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"CancelLayoutTransforms: expected an IRModule, got {type(mod).__name__}")
    canceller = _Canceller(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and not _writes(func):
            canceller.builder_.update_func(gvar, canceller.visit_expr(func))
    return relax.transform.DeadCodeElimination()(canceller.builder_.get())


@relax.expr_functor.mutator
class _Canceller(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        name = _name(call)
        if name not in ("relax.permute_dims", "relax.layout_transform"):
            return call
        before = self.lookup_binding(call.args[0]) if isinstance(call.args[0], relax.Var) else None
        if (
            before is None
            or _name(before) != name
            or _may_leave_block(before.args[0], call.args[0])
        ):
            return call
        composed = _permuted if name == "relax.permute_dims" else _transformed
        return composed(before, call)


def _writes(func: Any) -> bool:
    """Whether something in the function may write into a value."""
    writes: list[bool] = []
    tvm_ffi.structural_walk(func.body, (relax.Call, lambda c: writes.append(may_write(c))))
    return any(writes)


def _may_leave_block(source: Any, between: Any) -> bool:
    """Whether a variable may belong to another dataflow block than the one that reads it."""
    local = isinstance(source, relax.DataflowVar)
    return local and not isinstance(between, relax.DataflowVar)


def _name(expr: Any) -> str:
    return str(getattr(getattr(expr, "op", None), "name", ""))


def _permuted(inner: Any, outer: Any) -> Any:
    """``permute(permute(x, a), b) = permute(x, a∘b)``, and x if that is the identity."""
    rank = extents(inner.args[0].ty.shape)
    if rank is None:
        return outer
    first, second = (_axes(c, len(rank)) for c in (inner, outer))
    composed = [first[k] for k in second]
    if composed == list(range(len(composed))):
        return inner.args[0]
    return relax.op.permute_dims(inner.args[0], composed)


def _axes(call: Any, rank: int) -> list[int]:
    axes = call.attrs.axes
    if axes is None:
        return list(range(rank))[::-1]
    return [int(a) % rank for a in axes]


def _transformed(inner: Any, outer: Any) -> Any:
    source = inner.args[0]
    if inner.attrs.pad_value is not None or outer.attrs.pad_value is not None:
        return outer
    before, middle, after = (extents(t.ty.shape) for t in (source, inner, outer))
    if before is None or middle is None or after is None or len(before) != len(after):
        return outer
    if not all(map(_same, before, after)) or not _same_volume(before, middle):
        return outer
    proof = prove_identity(inner.attrs.index_map, outer.attrs.index_map, before)
    return source if proof.verdict == "proved" else outer


def _same(a: Any, b: Any) -> bool:
    return bool(sym.Analyzer().can_prove_equal(a, b))


def _same_volume(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two shapes have equally many elements, so that nothing was padded in between."""
    size_a, size_b = (tvm.tirx.const(1, "int64"), tvm.tirx.const(1, "int64"))
    for expr in a:
        size_a = size_a * expr
    for expr in b:
        size_b = size_b * expr
    return _same(size_a, size_b)
