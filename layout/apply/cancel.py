"""Cancel and fuse layout conversions that are Relax operators.

    Before: y = R.permute_dims(x, [0, 2, 3, 1]); z = R.permute_dims(y, [0, 3, 1, 2])
    After:  z = x

    Before: y = R.layout_transform(x, NCHW8c); z = R.layout_transform(x, NCHW8c)
    After:  y = R.layout_transform(x, NCHW8c)                              z is y

    Before: y = R.layout_transform(x, NCHW8c)       x has 6 channels: the last two of y are padding
            z = R.strided_slice(R.layout_transform(y, NCHW), channels 0 to 6)
    After:  z = x

Two ``layout_transform`` cancel only if their maps are proved to compose to the identity, and what
the first pads is cut off. In contrast, ``relax.transform.OptimizeLayoutTransform`` cancels any two
of equal shape.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.index_map import prove_identity
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import op_name
from ...analysis.support.tvm_compat import sym
from ..graph.relax_graph import extents
from ..graph.side_effects import SideEffects

#: Operators that convert layouts.
TRANSFORMS = ("relax.permute_dims", "relax.layout_transform")


def cancel_layout_transforms(mod: Any) -> Any:
    """Return the module without repeated conversions and pairs that are provably inverse.

    Args:
        mod: A Relax module; it is not changed.

    Returns:
        The module without them.

    Raises:
        TypeError: The argument is not a module.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"CancelLayoutTransforms: expected an IRModule, got {type(mod).__name__}")
    canceller, effects = _Canceller(mod), SideEffects(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and not effects.of_function(func):
            canceller.twins = _twins(func)
            canceller.builder_.update_func(gvar, canceller.visit_expr(func))
    return relax.transform.DeadCodeElimination()(canceller.builder_.get())


@relax.expr_functor.mutator
class _Canceller(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces conversions of conversions by one or none."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.twins = NodeDict[Any]()

    def visit_var_binding_(self, binding: Any) -> None:
        twin = self.twins.get(binding.var)
        if twin is None:
            super().visit_var_binding_(binding)
        else:
            self.set_var_remap(binding.var, self.visit_expr(twin))

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if op_name(call) == "relax.strided_slice":
            return self.cut(call)
        if op_name(call) not in TRANSFORMS:
            return call
        before: Any = self.bound(call.args[0])
        if op_name(before) != op_name(call) or may_leave_block(before.args[0], call.args[0]):
            return call
        composed = _permuted if op_name(call) == "relax.permute_dims" else _transformed
        return composed(before, call)

    def cut(self, call: Any) -> Any:
        """The value that was packed and unpacked, if the slice cuts off the padding."""
        outer: Any = self.bound(call.args[0])
        inner: Any = None
        if op_name(outer) == "relax.layout_transform":
            inner = self.bound(outer.args[0])
        if op_name(inner) != "relax.layout_transform":
            return call
        source = inner.args[0]
        shape = extents(source.ty.shape)
        between = (outer.args[0], call.args[0])
        if any(may_leave_block(source, var) for var in between) or not _first(call, shape):
            return call
        proof = prove_identity(inner.attrs.index_map, outer.attrs.index_map, shape or ())
        return source if proof.verdict == "proved" else call

    def bound(self, expr: Any) -> Any:
        """The value that a variable is bound to; None if it is not known."""
        value: Any = self.lookup_binding(expr) if isinstance(expr, relax.Var) else None
        return value


def _twins(func: Any) -> NodeDict[Any]:
    """The earlier variable for each conversion that its block repeats."""
    twins = NodeDict[Any]()

    def visit(block: Any) -> None:
        earlier: dict[Any, list[tuple[Any, Any]]] = {}
        for binding in block.bindings:
            var = binding.var
            value: Any = getattr(binding, "value", None)
            if op_name(value) not in TRANSFORMS:
                continue
            source = value.args[0]
            source = twins[source] if source in twins else source
            before = earlier.setdefault((op_name(value), source.__chandle__()), [])
            twin = next((v for attrs, v in before
                         if tvm_ffi.structural_equal(attrs, value.attrs)), None)  # fmt: skip
            if twin is None:
                before.append((value.attrs, var))
            elif not may_leave_block(twin, var):
                twins[var] = twin

    tvm_ffi.structural_walk(func.body, (relax.BindingBlock, visit))
    return twins


def _first(call: Any, shape: tuple[Any, ...] | None) -> bool:
    """Whether a slice takes the first elements of each axis, as many as a shape has."""
    whole = extents(call.args[0].ty.shape)
    result = extents(call.ty.shape) if hasattr(call.ty, "shape") else None
    if shape is None or whole is None or result is None or not len(shape) == len(whole):
        return False
    axes, begins, steps = (_integers(call, k) for k in (1, 2, 4))
    if axes is None or begins is None or any(begins) or (steps is not None and set(steps) != {1}):
        return False
    return (len(call.args) < 5 or steps is not None) and all(map(_same, shape, result))


def _integers(call: Any, k: int) -> list[int] | None:
    """The integers of an argument that is a tuple; None if it is not."""
    if k >= len(call.args) or not isinstance(call.args[k], relax.Tuple):
        return None
    values = [getattr(f, "value", f) for f in call.args[k].fields]
    return [int(v) for v in values] if all(hasattr(v, "__int__") for v in values) else None


def may_leave_block(source: Any, between: Any) -> bool:
    """Whether a variable may belong to another dataflow block than the one that reads it."""
    local = isinstance(source, relax.DataflowVar)
    return local and not isinstance(between, relax.DataflowVar)


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
