"""What a runtime that computes integers in float32 gets right: bounds, and clamped inputs.

float32 has all integers up to 2^24. Inputs of int64 that have no bounds are clamped to that. A
tensor is clamped if the runtime then has the true elements, clamped; so is one whose true elements
are not beyond. Moves keep that, and so do minima and maxima, as clamping is monotone. Comparisons
give the same as in 64 bits:

    clamp(x) < c  if and only if  x < c,  for all c strictly between the ends
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...analysis.proposal.proposal import Constant
from ...layout.graph.relax_graph import Value
from .elementwise_groups import Infos
from .pattern_node import Node, node
from .value_bounds import bounds

#: The ends of the integers that float32 has without gaps.
LEAST, MOST = -(2.0**24), 2.0**24
#: Dtypes with numbers beyond the integers of 32 bits, whose sums and products also need bounds.
WIDE = ("int64", "uint32", "uint64")
COMPARISONS = frozenset(f"relax.{n}" for n in (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"))  # fmt: skip
#: Operators whose results have elements of their operands only, or the least or greatest of them.
_MONOTONE = frozenset(f"relax.{n}" for n in (
    "reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "broadcast_to", "strided_slice",
    "concat", "tile", "repeat", "flip", "where", "take", "gather_elements", "gather_nd", "minimum",
    "maximum", "clip", "nn.relu"))  # fmt: skip
#: Those that read elements of some operands only, which are these.
_DATA = {"relax.where": (1, 2), "relax.take": (0,), "relax.gather_elements": (0,),
         "relax.gather_nd": (0,)}  # fmt: skip
#: Operators in a row that are followed.
_DEPTH = 16


def is_wide(value: Value, infos: Infos) -> bool:
    """Whether a tensor of many bits has elements that are not known to be at most 2^24."""
    return value.dtype in WIDE and not is_small(value, infos)


def is_small(value: Value, infos: Infos) -> bool:
    """Whether all elements are known to be at most 2^24."""
    within = bounds(value, infos)
    return within is not None and LEAST <= within[0] and within[1] <= MOST


def is_clamped(value: Value, infos: Infos, depth: int = _DEPTH) -> bool:
    """Whether the runtime has the elements clamped, if it has those of parameters so.

    Args:
        value: The tensor.
        infos: The recovered operators of its graph.
        depth: Operators in a row that are followed.
    """
    if not is_wide(value, infos):
        return True
    if value.dtype != "int64" or value.constant:
        return False
    if value.parameter:
        return True
    producer = None if value.producer is None else node(value.producer, infos)
    return producer is not None and depth > 0 and _keeps(producer, depth)


def _keeps(of: Node, depth: int = _DEPTH) -> bool:
    """Whether an operator has a clamped result, as its operands are."""
    if of.info.name not in _MONOTONE or len(of.op.outputs) != 1:
        return False
    clamped = all(is_clamped(v, of.infos, depth - 1) for v in _data(of))
    return clamped and all(map(_fits, literals(of)))


def same_if_clamped(reader: Node, value: Value) -> bool:
    """Whether an operator has the same result, or a clamped one, if an operand is clamped."""
    if any(value is v for v in _data(reader)) and _keeps(reader):
        return True
    return decides(reader, value) and is_clamped(value, reader.infos)


def decides(reader: Node, value: Value) -> bool:
    """Whether an operator makes a bool of an operand, which is the same if that is clamped."""
    if reader.info.name == "relax.astype":
        return reader.result.dtype == "bool"
    others = [v for v in reader.operands if v is not value]
    numbers = literals(reader)
    if reader.info.name not in COMPARISONS or len(others) + len(numbers) != 1:
        return False
    return all(_is_inside(bounds(v, reader.infos)) for v in others) and all(
        isinstance(x, (int, float)) and LEAST < x < MOST for x in numbers)  # fmt: skip


def literals(of: Node) -> list[Any]:
    """The literal operands of an operator, and the numbers among its attributes."""
    operands = [o.value for o in of.info.operands if isinstance(o, Constant)]
    return [*operands, *_numbers(list((of.info.attrs or {}).values()))]


def _numbers(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _numbers(value)
        elif isinstance(value, Constant):
            yield value.value
        elif isinstance(value, (int, float)):
            yield value


def _fits(number: Any) -> bool:
    return isinstance(number, (int, float)) and LEAST <= number <= MOST


def _is_inside(within: tuple[float, float] | None) -> bool:
    return within is not None and within[0] > LEAST and within[1] < MOST


def _data(of: Node) -> list[Value]:
    """The operands whose elements the result has."""
    places = _DATA.get(of.info.name, range(len(of.info.operands)))
    return [v for k in places if (v := of.operand(k)) is not None]
