"""Check extents that an operator needs to be equal, where they are not proved to be.

Before: `y = R.matmul(x, w)` of x: (n, k) and w: (256, 16)
After:  `x1 = R.match_cast(x, R.Tensor((n, 256)))`, `y = R.matmul(x1, w)`

Relax refuses extents that are proved to differ. Code for others reads as many elements as one of
the tensors has, also outside of the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
        args = list(call.args)
        for first, axis, second, other, factor in _RULES[name](call) if name in _RULES else ():
            a, b = _extent(args[first], axis), _extent(args[second], other)
            if a is None or b is None or _equal(a, b * factor):
                continue
            if isinstance(a, tirx.IntImm) and factor == 1:
                first, axis, b = second, other, a
            args[first] = self.builder_.match_cast(
                args[first], _with(args[first].ty, axis, b * factor)
            )
            self.changed = True
        if all(new.same_as(old) for new, old in zip(args, call.args, strict=True)):
            return call
        return relax.Call(call.op, args, call.attrs, call.ty_args, call.span)


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


def _by_channel(call: Any) -> Iterator[_Equal]:
    attrs = call.attrs
    axis = int(attrs.axis if hasattr(attrs, "axis") else attrs.channel_axis)
    yield from ((k, 0, 0, axis, 1) for k in range(1, len(call.args)))


def _by_axes(call: Any) -> Iterator[_Equal]:
    for k in range(1, len(call.args)):
        yield from ((k, place, 0, int(axis), 1) for place, axis in enumerate(call.attrs.axes))


#: The extents that operators need to be equal.
_RULES: Mapping[str, Callable[[Any], Iterator[_Equal]]] = {
    "matmul": _matmul,
    **{f"nn.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.conv{n}d_transpose": _conv_transpose for n in (1, 2, 3)},
    "nn.batch_norm": _by_channel, "nn.group_norm": _by_channel, "nn.instance_norm": _by_channel,
    "nn.layer_norm": _by_axes, "nn.rms_norm": _by_axes,
}  # fmt: skip
