"""Numbers of 8 bits, and the real numbers that a program makes of them before it multiplies.

dequantize(q, s, z), (q - z) * s in float32, permute_dims(…) of one, a constant of whole numbers

TVM's `relax.dequantize` truncates float8 to whole numbers, so only casts of float8 are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ....analysis.support.tvm_compat import GenericConst, array_of
from ..mutation.mutate import named

FLOAT8 = "float8_e4m3fn"
SMALL = ("int8", "uint8", FLOAT8)
#: float8 is exact in these, and int8 minus a zero point; halves hold 11 bits.
WIDE = ("float32", "float16", "int32")
#: The largest number of operators that an operand is followed through.
DEPTH = 8
#: The largest number of a float16.
LARGEST = 65504.0


@dataclass(frozen=True)
class Codes:
    """A tensor (data - zero) * scales, whose last two axes are perhaps swapped.

    Attributes:
        data: Numbers of 8 bits.
        scales: Factors, as constants or tensors; they broadcast to the tensor.
        zero: A tensor of one whole number; None for 0.
        swapped: Whether the tensor has the last two axes of ``data`` swapped.
    """

    data: Any
    scales: tuple[Any, ...] = ()
    zero: Any = None
    swapped: bool = False

    @property
    def dtype(self) -> str:
        """That of the product: uint8 is read as int8 with another zero point."""
        kind = str(self.data.ty.dtype)
        return "int8" if kind == "uint8" else kind

    @property
    def has_zero(self) -> bool:
        """Whether the codes for int8 have a zero point, perhaps."""
        if self.zero is None or not isinstance(self.zero, GenericConst):
            return self.zero is not None or str(self.data.ty.dtype) == "uint8"
        return str(self.data.ty.dtype) != "uint8" or int(array_of(self.zero).numpy()) != 128


def codes(expr: Any, lookup: Callable[[Any], Any], depth: int = DEPTH) -> Codes | str:
    """The codes of a tensor, or why it has none; ``lookup`` returns what a variable is bound to."""
    call = lookup(expr) if isinstance(expr, relax.Var) else expr
    if str(getattr(expr.ty, "dtype", "")) in SMALL:
        return Codes(expr)
    if isinstance(call, GenericConst):
        return _whole(call)
    if not isinstance(call, relax.Call) or depth == 0:
        return "an operand is not dequantised from 8 bits"
    for name, read in _READERS.items():
        if named(call, name):
            return read(call, lambda e: codes(e, lookup, depth - 1))
    return "an operand is not dequantised from 8 bits"


Reader = Callable[[Any], "Codes | str"]


def _whole(constant: Any) -> Codes | str:
    """Whole numbers of float32 or int32 as int8."""
    array = array_of(constant).numpy()
    if str(constant.ty.dtype) not in ("float32", "int32") or array.ndim < 2:
        return "an operand is a constant that is not dequantised from 8 bits"
    small = np.nan_to_num(np.clip(array, -128, 127)).astype("int8")
    if not np.array_equal(small, array):
        return "an operand is a constant with numbers that are not of int8"
    return Codes(relax.const(small, "int8"))


def _dequantized(call: Any, read: Reader) -> Codes | str:
    data, scale, zero = call.args
    dtype, wide = str(data.ty.dtype), str(call.attrs.out_dtype)
    if dtype not in ("int8", "uint8") or wide not in WIDE:
        return f"an operand is dequantised from {dtype} to {wide}"
    zero = _zero(zero)
    if isinstance(zero, str):
        return zero
    if is_single(scale) and wide == "float32":
        return Codes(data, (scale,), zero)
    if not isinstance(scale, GenericConst):
        return "an operand has several scales that are not constants"
    array = array_of(scale).numpy()
    if wide == "float16" and float(np.abs(array).max(initial=0)) * 255 > LARGEST:
        return "an operand is dequantised to more than float16 holds"
    if array.size > 1:
        shape = [1] * data.ty.ndim
        shape[int(call.attrs.axis)] = -1
        array = array.reshape(shape)
    return Codes(data, (relax.const(array.astype("float32"), "float32"),), zero)


def _zero(zero: Any) -> Any:
    """A zero point of one element; None if it is 0."""
    if not isinstance(zero, GenericConst):
        return zero if is_single(zero) else "an operand has several zero points"
    numbers = np.unique(array_of(zero).numpy())
    if numbers.size != 1 or numbers[0] != int(numbers[0]):
        return "an operand has several zero points"
    return relax.const(np.int32(int(numbers[0])), "int32") if numbers[0] else None


def _cast(call: Any, read: Reader) -> Codes | str:
    wide, source = str(call.attrs.dtype), call.args[0]
    if wide not in WIDE or (str(source.ty.dtype) == FLOAT8 and wide == "int32"):
        return f"an operand is cast to {wide}"
    inner = read(source)
    if isinstance(inner, str) or not inner.scales or wide == "float32":
        return inner
    most = 448.0 if inner.dtype == FLOAT8 else 255.0
    for scale in inner.scales:
        most *= float(np.abs(array_of(scale).numpy()).max(initial=0)) if _known(scale) else np.inf
    return inner if wide == "float16" and most <= LARGEST else f"an operand is rounded to {wide}"


def _known(scale: Any) -> bool:
    return isinstance(scale, GenericConst)


def _moved_by_zero(call: Any, read: Reader) -> Codes | str:
    inner = read(call.args[0])
    if isinstance(inner, str):
        return inner
    if inner.scales or inner.zero is not None or inner.dtype == FLOAT8:
        return "something is subtracted from an operand that is scaled"
    if isinstance(call.args[1], GenericConst):
        zero = _zero(call.args[1])
        return zero if isinstance(zero, str) else replace(inner, zero=zero)
    point = read(call.args[1])
    if isinstance(point, str) or point.scales or point.zero is not None or point.dtype == FLOAT8:
        return "the zero point of an operand is not a number of 8 bits"
    if not is_single(point.data):
        return "an operand has several zero points"
    return replace(inner, zero=point.data)


def _scaled(call: Any, read: Reader) -> Codes | str:
    if str(call.ty.dtype) != "float32":
        return f"an operand is scaled in {call.ty.dtype}"
    why = ""
    for k in (0, 1):
        inner = read(call.args[k])
        if isinstance(inner, str):
            why = why or inner
        elif tvm_ffi.structural_equal(call.args[k].ty.shape, call.ty.shape):
            return replace(inner, scales=(*inner.scales, call.args[1 - k]))
    return why or "an operand is broadcast by its scale"


def _swapped(call: Any, read: Reader) -> Codes | str:
    inner, rank = read(call.args[0]), call.ty.ndim
    if isinstance(inner, str):
        return inner
    axes = call.attrs.axes
    order = [int(a) % rank for a in axes] if axes is not None else [*range(rank)][::-1]
    if rank < 2 or order != [*range(rank - 2), rank - 1, rank - 2]:
        return f"the axes of an operand are permuted to {order}"
    scales = [_turned(s) for s in inner.scales]
    if any(s is None for s in scales):
        return "an operand has several scales that are not constants"
    return replace(inner, scales=tuple(scales), swapped=not inner.swapped)


def _turned(scale: Any) -> Any:
    """A scale for the swapped tensor; None if it has several elements and is not a constant."""
    if is_single(scale):
        return scale
    if not isinstance(scale, GenericConst):
        return None
    array = array_of(scale).numpy()
    return relax.const(np.atleast_2d(array).swapaxes(-1, -2), "float32")


def is_single(expr: Any) -> bool:
    """Whether a tensor has one element."""
    shape = getattr(getattr(expr.ty, "shape", None), "values", None)
    return shape is not None and all(hasattr(e, "value") and int(e.value) == 1 for e in shape)


_READERS: dict[str, Callable[[Any, Reader], Codes | str]] = {
    "relax.dequantize": _dequantized, "relax.astype": _cast, "relax.subtract": _moved_by_zero,
    "relax.multiply": _scaled, "relax.permute_dims": _swapped,
}  # fmt: skip
