"""Conditions on integers, which OpenVINO has in 32 bits and computes in float32 in many places.

In OpenVINO 2026.4, int64 is int32, in inputs and constants too. Comparisons, choices, minima and
maxima beside others, clips, pads, remainders and reductions round to float32, which has all
integers up to 2^24; a cast of -2^31 to bool is false. Sums, products and moves of int32 are exact.
"""

from __future__ import annotations

import math
from typing import Any

from ....layout.graph.relax_graph import Value
from ...patterns.clamped_values import (
    COMPARISONS,
    LEAST,
    MOST,
    WIDE,
    decides,
    is_clamped,
    is_small,
    is_wide,
    literals,
    same_if_clamped,
)
from ...patterns.pattern_node import Node, node
from .integer_sums import rounded_sum
from .wrapped_integers import saturated

#: Operators whose last operand is an index into the first one, which is checked to be inside.
_INDEXED = ("relax.take", "relax.gather_elements", "relax.gather_nd")
_POSITIONS = ("relax.argmax", "relax.argmin")
#: Operators that round numbers of int32 to float32.
_ROUNDING = COMPARISONS | frozenset(f"relax.{n}" for n in (
    "where", "minimum", "maximum", "clip", "nn.relu", "nn.pad", "mod", "floor_mod", "floor_divide",
    "power", "max", "min", "sum", "prod", "mean", "one_hot"))  # fmt: skip


def narrow(node: Node) -> str | None:
    """All integers of a region are at most 2^24, but for int64 that it compares, which is clamped.

    Those of int32 may be larger where nothing rounds them.
    """
    for value in computed(node):
        if is_wide(value, node.infos):
            result = any(value is v for v in node.results)
            if result or not decides(node, value) or _indexes_symbolic(value, node):
                return f"the dtype is {value.dtype}, which OpenVINO rounds beyond 2^24"
        if _rounded(node, value):
            return f"the dtype is {value.dtype}, which OpenVINO rounds beyond 2^24"
    return saturated(node) or _large_literal(node)


def small_or_clamped(node: Node) -> str | None:
    """All integers of a file are at most 2^24, or clamped; nothing is float64."""
    for value in computed(node):
        if value.dtype == "float64":
            return f"{value.name} is float64, which OpenVINO computes as float32"
        wide = is_wide(value, node.infos) and not _clamped(node, value)
        if wide or _rounded(node, value):
            return f"{value.name} is {value.dtype}, which OpenVINO rounds beyond 2^24"
    return saturated(node) or rounded_sum(node) or _large_literal(node)


def _clamped(node: Node, value: Value) -> bool:
    if any(value is v for v in node.results):
        return is_clamped(value, node.infos)
    return same_if_clamped(node, value)


def _rounded(of: Node, value: Value) -> bool:
    """Whether an operator rounds numbers of int32."""
    if value.dtype != "int32" or is_small(value, of.infos):
        return False
    if of.info.name == "relax.astype":
        return of.result.dtype == "bool"
    if of.info.name == "relax.take" and value is not of.operand(0):
        return value is not of.result and str(of.info.attrs["mode"]) == "wrap"
    if of.info.name not in _ROUNDING or decides(of, value):
        return False
    return not (of.info.name == "relax.where" and _only_indexes(of.result, of))


def _only_indexes(value: Value, of: Node) -> bool:
    """Whether a tensor is only used as an index, which is checked to be inside."""
    readers = [node(op, of.infos) for op in value.uses]
    return value.pinned is None and all(
        r is not None and _index(r) is value and not _symbolic(r) for r in readers
    )


def _indexes_symbolic(value: Value, of: Node) -> bool:
    """Whether a tensor indexes an axis that may be longer than what it would be clamped to."""
    readers = [node(op, of.infos) for op in value.uses]
    return any(r is not None and _index(r) is value and _symbolic(r) for r in readers)


def _symbolic(of: Node) -> bool:
    data = of.operand(0)
    return data is None or not all(isinstance(e, int) for e in data.shape)


def _index(of: Node) -> Value | None:
    """The operand that indexes an axis of another one; None for other operators.

    It is checked, so that it is small if the axis is not too long.
    """
    checked = str((of.info.attrs or {}).get("mode", "fast")) == "fast"
    data, index = of.operand(0), of.operand(len(of.info.operands) - 1)
    if of.info.name not in _INDEXED or not checked or data is None or data is index:
        return None
    return None if any(isinstance(e, int) and e > MOST for e in _indexed(of, data)) else index


def _indexed(of: Node, data: Value) -> tuple[Any, ...]:
    """The extents of the axes that an index may be of."""
    axis = (of.info.attrs or {}).get("axis")
    if of.info.name == "relax.gather_nd" or not isinstance(axis, int):
        return (*data.shape, math.prod(e for e in data.shape if isinstance(e, int)))
    return (data.shape[axis % data.rank],)


def computed(of: Node) -> list[Value]:
    """The tensors of an operator, without positions, which extents bound."""
    if of.info.name in _POSITIONS:
        return [v for v in of.tensors if v is not of.result]
    index = _index(of)
    return [v for v in of.tensors if v is not index]


def _large_literal(of: Node) -> str | None:
    """Why a literal among integers is not one that OpenVINO has."""
    wide = any(v.dtype in WIDE for v in of.tensors)
    if not wide and not (of.info.name in _ROUNDING and any(v.dtype == "int32" for v in of.tensors)):
        return None
    for number in literals(of):
        if isinstance(number, (int, float)) and not LEAST <= number <= MOST:
            return f"{of.info.name} has the number {number}, which OpenVINO rounds beyond 2^24"
    return None
