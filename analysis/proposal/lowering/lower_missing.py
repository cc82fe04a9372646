"""Lower operators that TVM's wheel does not lower, or not with symbolic sizes, or wrongly.

TVM has no rule for `ewise_fma`, calls a function that its wheel lacks for `nn.pixel_shuffle`, and
reads the number of slopes of `nn.prelu` as a constant. It simplifies `x == x` to true, and `x != x`
to false: for floats, these ask where `x` is NaN. It makes 0 of `x * 0` and `0 / x`, which is NaN
for some floats, and refuses `x / 0`: it reads a constant 0 as a number, and here as an element.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi
from tvm.ir import PrimType, register_op_attr

from ...support.tvm_compat import GenericConst, array_of

#: TVM's rules of comparisons, by operator.
TVM_RULES: dict[str, Any] = {}


def fused_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """Return `x * y + z` of tensors of one shape."""
    return te.compute(x.shape, lambda *at: x(*at) * y(*at) + z(*at), name="ewise_fma",
                      tag="elemwise")  # fmt: skip


def pixel_shuffle(x: Any, factor: int) -> Any:
    """Return an image whose pixels are blocks of channels.

    Args:
        x: A tensor of (.., c * factor^2, height, width).
        factor: The height and width of a block.

    Returns:
        A tensor of (.., c, height * factor, width * factor).
    """
    *others, channels, height, width = x.shape
    shape = [*others, tirx.floordiv(channels, factor * factor), height * factor, width * factor]

    def element(*at: Any) -> Any:
        *outer, channel, row, column = at
        within = tirx.floormod(row, factor) * factor + tirx.floormod(column, factor)
        place = (tirx.floordiv(row, factor), tirx.floordiv(column, factor))
        return x(*outer, channel * (factor * factor) + within, *place)

    return te.compute(shape, element, name="pixel_shuffle", tag="injective")


def prelu(x: Any, slope: Any, axis: int) -> Any:
    """Return `x`, where negative times the slope of its position on an axis, or the only one."""
    axis %= len(x.shape)
    alone = isinstance(slope.shape[0], tirx.IntImm) and int(slope.shape[0]) == 1

    def element(*at: Any) -> Any:
        value = x(*at)
        return tirx.Select(value > 0, value, value * slope(0 if alone else at[axis]))

    return te.compute(x.shape, element, name="prelu", tag="broadcast")


def _is_symbolic(tensor: Any) -> bool:
    return any(not isinstance(d, tirx.IntImm) for d in tensor.ty.shape.values)


def _prelu(rule: Any) -> Any:
    def lower(builder: Any, call: Any) -> Any:
        if not any(map(_is_symbolic, call.args)):
            return rule(builder, call)
        return builder.call_te(prelu, *call.args, int(call.attrs.axis))

    return lower


def _pixel_shuffle(builder: Any, call: Any) -> Any:
    return builder.call_te(pixel_shuffle, call.args[0], int(call.attrs.upscale_factor))


def _fused_multiply_add(builder: Any, call: Any) -> Any:
    return builder.call_te(fused_multiply_add, *call.args)


def _compared(rule: Any, equal: bool) -> Any:
    """Return the rule of `equal` or `not_equal`, but for a tensor of floats and itself."""

    def is_nan(x: Any) -> Any:
        return te.compute(x.shape, lambda *i: tirx.isnan(x[i]), "is_nan")

    def is_number(x: Any) -> Any:
        return te.compute(x.shape, lambda *i: tirx.Not(tirx.isnan(x[i])), "is_number")

    def lower(builder: Any, call: Any) -> Any:
        x, y = call.args
        if not x.same_as(y) or "float" not in str(x.ty.dtype):
            return rule(builder, call)
        return builder.call_te(is_number if equal else is_nan, x)

    return lower


def _with_zeros(rule: Any, apply: Any) -> Any:
    """Return the rule of a product or quotient, `apply`, that reads a 0 of floats as an element."""

    def lower(builder: Any, call: Any) -> Any:
        if not any(map(_is_zero, call.args)):
            return rule(builder, call)
        ranks = [_known_rank(x) for x in call.args]
        if None in ranks:
            return rule(builder, call)
        args = [_element(x, any(ranks)) if _is_zero(x) else x for x in call.args]
        if not any(ranks):  # TVM reads constants without axes as numbers
            return builder.call_te(apply, *args)
        call = relax.Call(call.op, args, call.attrs, call.ty_args, call.span)
        return rule(builder, builder.normalize(call) if call.ty is None else call)

    return lower


def _known_rank(value: Any) -> int | None:
    """Return the number of axes of a tensor of known shape, 0 for a number."""
    if isinstance(value.ty, PrimType):
        return 0
    shape = value.ty.shape
    return len(shape) if isinstance(shape, relax.ShapeExpr) else None


def _is_zero(value: Any) -> bool:
    """Return whether a value is a constant 0 of floats without axes."""
    if isinstance(value, tirx.FloatImm):
        return float(value.value) == 0
    return (
        isinstance(value, GenericConst)
        and "float" in str(value.ty.dtype)
        and len(value.ty.shape) == 0
        and not np.asarray(array_of(value).numpy()).any()
    )


def _element(zero: Any, axis: bool) -> Any:
    """Return a tensor of a 0, with an axis of one element or without axes."""
    dtype = str(zero.ty.dtype)
    tensor = relax.const(float(zero.value), dtype) if isinstance(zero, tirx.FloatImm) else zero
    return relax.const(array_of(tensor).numpy().reshape((1,) if axis else ()), dtype)


def register() -> None:
    """Register the rules, which all of TVM's passes use."""
    from tvm.ir import Op

    for name, equal in (("relax.equal", True), ("relax.not_equal", False)):
        TVM_RULES[name] = Op.get(name).get_attr("FLegalize")
        register_op_attr(name, "FLegalize", _compared(TVM_RULES[name], equal), level=11)
    for name, apply in (("relax.multiply", topi.multiply), ("relax.divide", topi.divide)):
        rule = _with_zeros(Op.get(name).get_attr("FLegalize"), apply)
        register_op_attr(name, "FLegalize", rule, level=11)
    rules = {"relax.ewise_fma": _fused_multiply_add, "relax.nn.pixel_shuffle": _pixel_shuffle,
             "relax.nn.prelu": _prelu(Op.get("relax.nn.prelu").get_attr("FLegalize"))}  # fmt: skip
    for name, rule in rules.items():
        register_op_attr(name, "FLegalize", rule, level=11)
