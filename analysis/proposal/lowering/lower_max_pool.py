"""Lower maximum pools of floats with minus infinity as padding and as the initial value.

TVM starts and pads with the lowest finite number, so that the maximum of a window of -inf alone is
-3.4e38. ONNX, torch and the libraries have -inf. The PrimFunc is otherwise the one that TVM makes.
A PrimFunc that starts with the lowest number is compared with what TVM's own rule makes, unless a
window is of padding alone: its maximum is the initial value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import te, tirx, topi
from tvm.ir import register_op_attr

_RANKS = (1, 2, 3)
#: TVM's rules, by operator.
TVM_RULES: dict[str, Callable[[Any, Any], Any]] = {}
_LOWEST = float("-inf")
_MAXIMUM = te.comm_reducer(
    lambda a, b: tirx.max(a, b), lambda dtype: tirx.const(_LOWEST, dtype), "maximum"
)


def max_pool(
    data: Any, layout: str, window: tuple[list[int], ...], padding: list[int], shape: list[Any]
) -> Any:
    """Return the maximum of each window of a tensor of floats.

    Args:
        data: A tensor expression.
        layout: Its layout, such as ``NCHW`` or ``NCHW16c``; spatial axes are not divided.
        window: The sizes, strides and dilations, by spatial axis.
        padding: What is before each spatial axis, then what is after each.
        shape: The sizes of the result.
    """
    axes = spatial_axes(layout)
    sizes, strides, dilations = (dict(zip(axes, numbers, strict=True)) for numbers in window)
    before, after = ([0] * len(data.shape) for _ in range(2))
    for k, axis in enumerate(axes):
        before[axis], after[axis] = padding[k], padding[len(axes) + k]
    if any(padding):
        data = topi.nn.pad(data, before, after, tirx.const(_LOWEST, data.dtype), "pad_temp")
    steps = {axis: te.reduce_axis((0, sizes[axis]), name=f"rv{k}") for k, axis in enumerate(axes)}

    def largest(*at: Any) -> Any:
        places = [i * strides[k] + steps[k] * dilations[k] if k in steps else i
                  for k, i in enumerate(at)]  # fmt: skip
        return _MAXIMUM(data(*places), axis=list(steps.values()))

    names = [f"ax{k}" for k in range(len(shape))]
    return te.compute(shape, largest, name="pool_max", tag="pool_max", varargs_names=names,
                      attrs={"schedule_rule": "meta_schedule.pool_max"})  # fmt: skip


_MAXIMUM = te.comm_reducer(
    lambda a, b: tirx.max(a, b), lambda dtype: tirx.const(_LOWEST, dtype), "maximum"
)


def spatial_axes(layout: str) -> list[int]:
    """Return the axes of D, H and W, in this order, of a layout such as ``NHWC`` or ``NCHW4c``."""
    letters = [letter for letter in layout if letter.isalpha()]
    return [letters.index(letter) for letter in "DHW" if letter in letters]


def reads_in_each_window(attrs: Mapping[str, Any], extents: Sequence[int | None]) -> bool:
    """Return whether no window is of padding alone, so that its initial value does not show.

    Args:
        attrs: Those of a maximum pool.
        extents: The sizes of its operand, in its layout; None if not known.
    """
    axes = spatial_axes(attrs["layout"])
    padding = _numbers(attrs["padding"])
    for k, axis in enumerate(axes):
        size, stride, dilation = (
            int(attrs[name][k]) for name in ("pool_size", "strides", "dilation")
        )
        before, after = padding[k], padding[len(axes) + k]
        beyond = after + (stride - 1 if attrs["ceil_mode"] else 0)
        extent = extents[axis]
        if max(before, beyond) <= 0 or (dilation == 1 and max(before, beyond) < size):
            continue  # a window without gaps that begins or ends inside
        if extent is None:
            return False
        last = extent + beyond - (size - 1) * dilation
        for start in range(-before, last, stride):
            if not any(0 <= start + j * dilation < extent for j in range(size)):
                return False
    return True


def _numbers(values: Any) -> list[int]:
    return [int(value) for value in values]


def _from_infinity(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return TVM's rule, but for pools of floats."""

    def lower(builder: Any, call: Any) -> Any:
        attrs, (data,) = call.attrs, call.args
        layout = str(attrs.layout)
        if "float" not in str(data.ty.dtype) or str(attrs.out_layout) != layout:
            return rule(builder, call)
        strides, padding = _numbers(attrs.strides), _numbers(attrs.padding)
        if attrs.ceil_mode:  # the last window may end beyond the padding
            first = len(strides)
            padding = [*padding[:first], *(after + stride - 1 for after, stride in
                                           zip(padding[first:], strides, strict=True))]  # fmt: skip
        window = (_numbers(attrs.pool_size), strides, _numbers(attrs.dilation))
        shape = list(call.ty.shape.values)
        return builder.call_te(max_pool, data, layout, window, padding, shape,
                               primfunc_name_hint=call.op.name.rpartition(".")[2])  # fmt: skip

    return lower


def register() -> None:
    """Replace TVM's rules, which all its passes use."""
    for rank in _RANKS:
        name = f"relax.nn.max_pool{rank}d"
        TVM_RULES[name] = tvm.ir.Op.get(name).get_attr("FLegalize")
        register_op_attr(name, "FLegalize", _from_infinity(TVM_RULES[name]), level=11)
