"""Bounds of the elements of a tensor, from the operators that compute it."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op, Value
from .elementwise_groups import Infos

Bounds = tuple[float, float]
#: Operators whose result has only elements of their first operand.
_MOVES = frozenset(f"relax.{n}" for n in (
    "reshape", "permute_dims", "expand_dims", "squeeze", "flatten", "broadcast_to",
    "strided_slice", "astype"))  # fmt: skip
#: The largest finite number of a dtype.
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
#: Operators in a row that are followed.
_DEPTH = 16


def bounds(value: Value, infos: Infos, depth: int = _DEPTH) -> Bounds | None:
    """Numbers that no element is below or above; None if there are none that are known.

    Args:
        value: The tensor.
        infos: The recovered operators of its graph.

    Returns:
        Finite numbers within the range of the tensor's dtype. No element is infinite or NaN.
    """
    if value.dtype == "bool":
        return 0.0, 1.0
    within = _unrounded(value, infos, depth)
    if within is None or value.dtype not in LARGEST:
        return within
    return within if max(map(abs, within)) <= LARGEST[value.dtype] else None


def _unrounded(value: Value, infos: Infos, depth: int) -> Bounds | None:
    if value.constant:
        return _of_constant(value)
    info = infos[value.producer].info if value.producer is not None else None
    if value.producer is None or not isinstance(info, OpInfo) or info.packed or depth == 0:
        return None
    if info.name not in _FOLLOWED:
        return None
    given = _arguments(value.producer, info, infos, depth)
    if info.name in _MOVES:
        return given[0]
    if info.name == "relax.where" and len(given) == 3:
        return _combined(given[1], given[2], lambda a, b: (min(*a, *b), max(*a, *b)))
    if len(given) != 2 or info.name not in _TWO:
        return None
    return _combined(given[0], given[1], _TWO[info.name])


def _arguments(op: Op, info: OpInfo, infos: Infos, depth: int) -> list[Bounds | None]:
    """The bounds of the operands, with literal attributes in their places."""
    out: list[Bounds | None] = []
    for operand in info.operands:
        if isinstance(operand, Constant):
            out.append((float(operand.value), float(operand.value)))
        else:
            value = op.values[operand]
            out.append(None if value is None else bounds(value, infos, depth - 1))
    for place, name in enumerate(("x1", "x2")):
        if isinstance(literal := info.attrs.get(name), (int, float)) and len(out) < 2:
            out.insert(place, (float(literal), float(literal)))
    return out


def _combined(
    first: Bounds | None, second: Bounds | None, combine: Callable[[Bounds, Bounds], Bounds]
) -> Bounds | None:
    return None if first is None or second is None else combine(first, second)


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


_TWO: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "relax.add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "relax.subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "relax.multiply": _product,
    "relax.minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "relax.maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
_FOLLOWED = frozenset((*_MOVES, *_TWO, "relax.where"))
