"""Check extents that an operator needs to be equal, where they are not proved to be.

Before: `y = R.matmul(x, w)` of x: (n, k) and w: (256, 16)
After:  `x1 = R.match_cast(x, R.Tensor((n, 256)))`, `y = R.matmul(x1, w)`

Relax refuses extents that are proved to differ. Code for others reads as many elements as one of
the tensors has, also outside of the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tvm
from tvm import ir, relax, sym, tirx

from ...analysis.support.rewrite_functions import rewrite_functions

#: An operand and its axis, another operand and its axis, and a factor: the first extent is that
#: many times the second.
_Equal = tuple[int, int, int, int, int]


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
        if name not in _RULES:
            return call
        tensors = self._bound(call.args[0]) if name == "einsum" else None
        if name == "einsum" and tensors is None:
            return call
        args = list(call.args) if tensors is None else list(tensors.fields)
        matched = self._matched(args, _RULES[name](call))
        if all(new.same_as(old) for new, old in zip(matched, args, strict=True)):
            return call
        self.changed = True
        new = matched if tensors is None else [relax.Tuple(matched), *call.args[1:]]
        return relax.Call(call.op, new, call.attrs, call.ty_args, call.span)

    def _matched(self, args: Sequence[Any], equal: Iterable[_Equal]) -> list[Any]:
        """Return operands of which some are cast."""
        out = list(args)
        for first, axis, second, other, factor in equal:
            a, b = _extent(out[first], axis), _extent(out[second], other)
            if a is None or b is None or _equal(a, b * factor):
                continue
            if isinstance(a, tirx.IntImm) and factor == 1:
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


def _extent(expr: Any, axis: int) -> Any:
    """An extent of a tensor; None if its shape is unknown."""
    shape = getattr(expr.ty, "shape", None)
    return shape.values[axis] if isinstance(shape, relax.ShapeExpr) and len(shape.values) else None


def _equal(a: Any, b: Any) -> bool:
    return bool(a.same_as(b)) or bool(sym.Analyzer().can_prove_equal(a, b))


def _with(ty: Any, axis: int, extent: Any) -> Any:
    shape = list(ty.shape.values)
    shape[axis] = extent
    return relax.TensorType(shape, ty.dtype)


def _matmul(call: Any) -> Iterator[_Equal]:
    yield 0, -1, 1, -1 if call.args[1].ty.ndim == 1 else -2, 1


def _conv(call: Any) -> Iterator[_Equal]:
    data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    if data.isalpha() and kernel.isalpha():  # not with blocks of channels
        yield 0, data.index("C"), 1, kernel.index("I"), int(call.attrs.groups)


def _conv_transpose(call: Any) -> Iterator[_Equal]:
    for first, axis, second, other, _ in _conv(call):
        yield first, axis, second, other, 1


def _einsum(call: Any) -> Iterator[_Equal]:
    """Extents of a label; those that are 1 are broadcast."""
    text = str(call.attrs.subscripts).replace(" ", "").partition("->")[0]
    shapes = [getattr(ty.shape, "values", None) for ty in call.args[0].ty.fields]
    first: dict[str, tuple[int, int]] = {}
    for k, (labels, shape) in enumerate(zip(text.split(","), shapes, strict=False)):
        if "." in labels or shape is None or len(labels) != len(shape):
            continue
        for axis, label in enumerate(labels):
            if not (isinstance(shape[axis], tirx.IntImm) and int(shape[axis]) == 1):
                place = first.setdefault(label, (k, axis))
                if place != (k, axis):
                    yield k, axis, *place, 1


def _attention(call: Any) -> Iterator[_Equal]:
    """Batches, the lengths of keys and values, and the elements of queries and keys."""
    yield from ((0, 0, 1, 0, 1), (0, 0, 2, 0, 1), (1, 1, 2, 1, 1), (0, 3, 1, 3, 1))


def _by_channel(call: Any) -> Iterator[_Equal]:
    attrs = call.attrs
    axis = int(attrs.axis if hasattr(attrs, "axis") else attrs.channel_axis)
    yield from ((k, 0, 0, axis, 1) for k in range(1, len(call.args)))


def _by_axes(call: Any) -> Iterator[_Equal]:
    for k in range(1, len(call.args)):
        yield from ((k, place, 0, int(axis), 1) for place, axis in enumerate(call.attrs.axes))


#: The extents that operators need to be equal.
_RULES: Mapping[str, Callable[[Any], Iterator[_Equal]]] = {
    "matmul": _matmul, "einsum": _einsum,
    **{f"nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose for n in (1, 2, 3)},
    "nn.attention": _attention, "nn.attention_bias": _attention,
    "nn.batch_norm": _by_channel, "nn.group_norm": _by_channel, "nn.instance_norm": _by_channel,
    "nn.layer_norm": _by_axes, "nn.rms_norm": _by_axes,
}  # fmt: skip
