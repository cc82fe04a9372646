"""Check extents that an operator needs to be equal, where they are not proved to be.

Before: `y = R.matmul(x, w)` of x: (n, k) and w: (256, 16)
After:  `x1 = R.match_cast(x, R.Tensor((n, 256)))`, `y = R.matmul(x1, w)`

Relax refuses extents that are proved to differ. Code for others reads as many elements as one of
the tensors has, also outside of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tvm
from tvm import ir, relax, sym, tirx

from ...analysis.support.rewrite_functions import rewrite_functions
from .equal_extents import RULES, Equal


def matched_extents(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module that checks such extents; the same one if it needs no check.

    Args:
        mod: A module before it is lowered; it is not changed.
    """
    matcher = _Matcher(mod)
    out = rewrite_functions(mod, matcher)
    return out if matcher.changed else mod


@relax.expr_functor.mutator
class _Matcher(relax.PyExprMutator):  # type: ignore[misc]
    """Casts operands to the extents that others have."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.changed = False

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        name = str(call.op.name).removeprefix("relax.") if isinstance(call.op, ir.Op) else ""
        for condition in _unproved(call, name):
            one, zero = (tirx.IntImm("int64", k) for k in (1, 0))
            ty = relax.ShapeType([tirx.Select(condition, one, zero)])
            self.builder_.match_cast(relax.ShapeExpr([one]), ty)
            self.changed = True
        if name not in RULES:
            return call
        tensors = self._bound(call.args[0]) if name == "einsum" else None
        if name == "einsum" and tensors is None:
            return call
        args = list(call.args) if tensors is None else list(tensors.fields)
        matched = self._matched(args, RULES[name](call))
        if all(new.same_as(old) for new, old in zip(matched, args, strict=True)):
            return call
        self.changed = True
        new = matched if tensors is None else [relax.Tuple(matched), *call.args[1:]]
        return relax.Call(call.op, new, call.attrs, call.ty_args, call.span)

    def _matched(self, args: Sequence[Any], equal: Iterable[Equal]) -> list[Any]:
        """Return operands of which some are cast."""
        out = list(args)
        for first, axis, second, other, factor in equal:
            a, b = _extent(out[first], axis), _extent(out[second], other)
            if a is None or b is None or _equal(a, b * factor):
                continue
            number = isinstance(a, tirx.IntImm) and factor == 1
            if number and not isinstance(out[second], relax.ShapeExpr):
                first, axis, b = second, other, a
            ty = _with(out[first].ty, axis, b * factor)
            out[first] = self.builder_.match_cast(out[first], ty)
        return out

    def _bound(self, expr: Any) -> Any:
        """Return a tuple whose fields are in scope where it is read; None for others."""
        value = self.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
        local = isinstance(expr, relax.DataflowVar) or value is expr
        if not isinstance(value, relax.Tuple):
            return None
        inner = any(isinstance(field, relax.DataflowVar) for field in value.fields)
        return None if inner and not local else value


def _unproved(call: Any, name: str) -> Iterator[Any]:
    """The conditions that extents must satisfy that are not equal, where they are not proved."""
    if name == "gather_elements":  # indices read as many elements of the other axes as they have
        data, indices = call.args
        for axis in range(indices.ty.ndim):
            most, count = _extent(data, axis), _extent(indices, axis)
            if axis == int(call.attrs.axis) % indices.ty.ndim or most is None or count is None:
                continue
            if not sym.Analyzer().can_prove(count <= most):
                yield count <= most


def _extent(expr: Any, axis: int) -> Any:
    """An extent of a tensor or a shape; None if it is unknown."""
    shape = expr if isinstance(expr, relax.ShapeExpr) else getattr(expr.ty, "shape", None)
    return shape.values[axis] if isinstance(shape, relax.ShapeExpr) and len(shape.values) else None


def _equal(a: Any, b: Any) -> bool:
    return bool(a.same_as(b)) or bool(sym.Analyzer().can_prove_equal(a, b))


def _with(ty: Any, axis: int, extent: Any) -> Any:
    shape = list(ty.shape.values)
    shape[axis] = extent
    return relax.TensorType(shape, ty.dtype)
