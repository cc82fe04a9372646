"""Bounds of the elements of a tensor, from the operators that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op, Value
from .elementwise_groups import Infos

Bounds = tuple[float, float]
#: Operators whose result has only elements of their first operand, unless an index outside of the
#: axis is NaN. In other modes that is an error, which is reported where the elements are checked.
_MOVES = frozenset(f"relax.{n}" for n in (
    "reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "broadcast_to",
    "strided_slice", "astype", "take", "gather_elements", "gather_nd"))  # fmt: skip
#: The largest finite number of a dtype.
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
#: Integers that float64, in which bounds are, has exactly: all of these dtypes fit.
_NARROW = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_EXACT = 2.0**53
#: How far bounds are followed: 16 operators in a row, or more of integers, of which a loop that was
#: unrolled has some for each step.
_DEPTH = 128
_STEP, _STEP_OF_INTEGERS = 8, 1

#: Bounds by tensor, with the depth to which they were followed.
_Known = dict[Value, tuple[int, Bounds | None]]


def bounds(value: Value, infos: Infos, depth: int = _DEPTH) -> Bounds | None:
    """Numbers that no element is below or above; None if there are none that are known.

    Args:
        value: The tensor.
        infos: The recovered operators of its graph.
        depth: How far they are followed: an operator of integers takes 1, another one 8.

    Returns:
        Finite numbers within the range of the tensor's dtype. No element is infinite or NaN.
    """
    return _bounds(value, infos, depth, {})


def _bounds(value: Value, infos: Infos, depth: int, known: _Known) -> Bounds | None:
    before, numbers = known.get(value, (-1, None))
    if before < depth:
        numbers = _within(value, _unrounded(value, infos, depth, known))
        known[value] = depth, numbers
    return numbers


def _within(value: Value, numbers: Bounds | None) -> Bounds | None:
    """The bounds of a tensor whose dtype may not have all numbers between the given ones."""
    dtype = value.dtype
    if dtype == "bool":
        return 0.0, 1.0
    if numbers is not None and not all(map(math.isfinite, numbers)):
        numbers = None
    if dtype in LARGEST:
        fits = numbers is not None and max(map(abs, numbers)) <= LARGEST[dtype]
        return _rounded(numbers, dtype) if numbers is not None and fits else None
    if "int" not in dtype:
        return numbers
    if numbers is not None:  # a cast rounds to an integer between
        numbers = float(math.floor(numbers[0])), float(math.ceil(numbers[1]))
    if dtype in _NARROW:
        info = np.iinfo(dtype)
        inside = numbers is not None and info.min <= numbers[0] and numbers[1] <= info.max
        return numbers if inside else (float(info.min), float(info.max))  # others wrap around
    # An end may have been rounded to 2^53, but not to a smaller number.
    low = -_EXACT if dtype == "int64" else -1.0
    inside = numbers is not None and low < numbers[0] and numbers[1] < _EXACT
    return numbers if inside else None


def _rounded(numbers: Bounds, dtype: str) -> Bounds:
    """The ends as a dtype has them: rounding keeps the order, so elements are between."""
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16

        return float(bfloat16(numbers[0])), float(bfloat16(numbers[1]))
    low, high = (float(x) for x in np.asarray(numbers).astype(dtype))
    return low, high


def _unrounded(value: Value, infos: Infos, depth: int, known: _Known) -> Bounds | None:
    if value.constant:
        return _of_constant(value)
    if value.within is not None:
        return value.within
    op = value.producer
    info = infos[op].info if op is not None else None
    if op is None or not isinstance(info, OpInfo) or info.packed or depth <= 0:
        return None
    if info.name in _POSITIONS:
        return _position(op, info)
    if info.name == "relax.clip" and "int" in value.dtype:
        return _clipped(info)
    if info.name not in _FOLLOWED:
        return None
    bounds = _arguments(op, info, infos, depth, known)
    if info.name in _MOVES:
        return None if info.attrs.get("mode") == "nan" else bounds[0]
    if info.name == "relax.where":
        return _union(bounds[1:]) if len(bounds) == 3 else None
    if info.name == "relax.concat":
        return _union(bounds)
    if len(bounds) != 2 or (info.name not in _TWO and "int" not in value.dtype):
        return None
    first, second = bounds
    if info.name == "relax.floor_mod":
        return None if second is None or second[0] < 1 else (0.0, second[1] - 1)
    if first is None or second is None:
        return None
    return (_TWO.get(info.name) or _quotient)(first, second)


def _position(op: Op, info: OpInfo) -> Bounds | None:
    """The bounds of a position on an axis: TVM's is -1 if all elements are the dtype's least."""
    data = op.values[info.operands[0]] if not isinstance(info.operands[0], Constant) else None
    if data is None:
        return None
    axis = info.attrs["axis"]
    extents = data.shape if axis is None else [data.shape[int(axis)]]
    count = math.prod(e for e in extents if isinstance(e, int))
    return (-1.0, count - 1.0) if all(isinstance(e, int) for e in extents) else None


def _clipped(info: OpInfo) -> Bounds | None:
    low, high = info.attrs.get("min"), info.attrs.get("max")
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or low > high:
        return None
    return float(low), float(high)


def _arguments(
    op: Op, info: OpInfo, infos: Infos, depth: int, known: _Known
) -> list[Bounds | None]:
    """The bounds of the operands, with literal attributes in their places."""
    out: list[Bounds | None] = []
    depth -= _STEP_OF_INTEGERS if "int" in op.outputs[0].dtype else _STEP
    for operand in info.operands:
        if isinstance(operand, Constant):
            out.append((float(operand.value), float(operand.value)))
        else:
            value = op.values[operand]
            out.append(None if value is None else _bounds(value, infos, depth, known))
    for place, name in enumerate(("x1", "x2")):
        if isinstance(literal := info.attrs.get(name), (int, float)) and len(out) < 2:
            out.insert(place, (float(literal), float(literal)))
    return out


def _union(parts: Sequence[Bounds | None]) -> Bounds | None:
    known = [p for p in parts if p is not None]
    if not parts or len(known) < len(parts):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


#: Bounds of constants, which many patterns ask for.
_KNOWN: WeakKeyDictionary[Value, Bounds | None] = WeakKeyDictionary()


def _of_constant(value: Value) -> Bounds | None:
    if value not in _KNOWN:
        array = np.asarray(value.expr.value.numpy()).astype("float64")
        finite = array.size > 0 and np.isfinite(array).all()
        _KNOWN[value] = (float(array.min()), float(array.max())) if finite else None
    return _KNOWN[value]


def _product(a: Bounds, b: Bounds) -> Bounds:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Bounds, b: Bounds) -> Bounds | None:
    """Of a positive divisor; rounded to an integer below or towards 0."""
    corners = [math.floor(x / y) for x in a for y in b] if b[0] >= 1 else []
    return (float(min(corners)), float(max(max(corners), 0))) if corners else None


_TWO: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "relax.add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "relax.subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "relax.multiply": _product,
    "relax.minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "relax.maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
#: Those that are followed for integers only.
_OF_INTEGERS = ("relax.divide", "relax.floor_divide", "relax.floor_mod")
_POSITIONS = ("relax.argmax", "relax.argmin")
_FOLLOWED = frozenset((*_MOVES, *_TWO, *_OF_INTEGERS, "relax.where", "relax.concat"))
