"""Conditions of operators that ONNX can express, and what writers share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from .....analysis.results.plain_values import to_plain
from ....backend.region import Call, Tensor
from ....patterns.extents.symbolic_shapes import offset, settled, static
from ....patterns.pattern import Condition, Node
from ....patterns.pattern_step import listed
from ....patterns.suggest import Unmet, bind, cast
from .graph_writer import GraphWriter, operands_of

Write = Callable[[GraphWriter, Call, list[str]], "str | Sequence[str]"]
"""Writes a call whose operands have these names; returns the name of its result, or of several."""


@dataclass(frozen=True)
class OnnxOperator:
    """How a Relax operator is written, and the conditions under which ONNX has it.

    Attributes:
        write: Writes a call.
        conditions: What must hold.
        several: Whether it has several results.
    """

    write: Write
    conditions: tuple[Condition, ...] = ()
    several: bool = False


def typed(result: Collection[str], *operands: Collection[str]) -> Condition:
    """Return a condition on dtypes: of the result, and of each operand; the last one repeats."""

    def has_dtypes(node: Node) -> Unmet | None:
        values = [*node.results]
        kinds = [result] * len(values)
        for k in range(len(node.info.operands)):
            if (value := node.operand(k)) is not None:
                values.append(value)
                kinds.append(operands[min(k, len(operands) - 1)] if operands else result)
        for value, kind in zip(values, kinds, strict=True):
            if value.dtype not in kind:
                return Unmet(f"the dtype is {value.dtype}, expected {listed(kind)}",
                             cast(value.dtype, next(iter(kind))))  # fmt: skip
        return None

    return has_dtypes


def plain(node: Node, name: str) -> Any:
    """An attribute as numbers, strings and lists."""
    return to_plain(node.info.attrs.get(name))


def is_(name: str, *values: Any) -> Condition:
    """Return a condition: an attribute has one of these values."""

    def check(node: Node) -> str | None:
        value = plain(node, name)
        return None if value in values else f"{name} is {value}, expected {listed_values(values)}"

    return check


def listed_values(values: Sequence[Any]) -> str:
    return " or ".join(map(str, values))


def fixed(node: Node) -> Unmet | None:
    """All extents are numbers."""
    extents = [e for v in node.tensors for e in v.shape]
    if static(extents):
        return None
    return Unmet("the shape is symbolic, expected a static shape", bind(extents))


def some_tensor(node: Node) -> str | None:
    """At least one operand is a tensor."""
    return None if len(node.tensors) > 1 else "all operands are literals"


def nonempty(node: Node) -> str | None:
    empty = next((v for v in node.tensors if 0 in v.shape), None)
    return None if empty is None else f"the shape {tuple(empty.shape)} is empty"


def integers(*names: str) -> Condition:
    """Return a condition: these attributes are numbers, not symbols."""

    def are_integers(node: Node) -> str | None:
        for name in names:
            value = plain(node, name)
            values = value if isinstance(value, list) else [value]
            symbol = next((v for v in values if isinstance(v, str)), None)
            if symbol is not None:
                return f"{name} has the symbol {symbol}, expected numbers"
        return None

    return are_integers


def expressible(node: Node) -> Unmet | None:
    """The symbolic extents of the result are extents of operands, or arithmetic over them."""
    known = [e for v in node.tensors if v is not node.result for e in v.shape]
    if all(_computable(e, known) for e in node.result.shape):
        return None
    extents = [e for v in node.tensors for e in v.shape]
    return Unmet(f"the shape {tuple(map(str, node.result.shape))} has extents that no operand has",
                 bind(extents))  # fmt: skip


def _computable(extent: Any, known: Sequence[Any]) -> bool:
    """Whether `GraphWriter.vector` can write an extent from known ones."""
    extent = settled(extent, known)
    if isinstance(extent, (int, tirx.IntImm)) or any(offset(extent, k) is not None for k in known):
        return True
    parts = operands_of(extent)
    return bool(parts) and all(_computable(p, known) for p in parts)


def ints(values: Any) -> list[int]:
    return [int(v) for v in values]


def first_tensor(call: Call) -> Tensor:
    """The first operand that is a tensor."""
    return next(o for o in call.operands if isinstance(o, Tensor))


def along(name: str) -> Write:
    """Write an operator of ONNX whose only attribute is the axis."""
    return lambda w, c, xs: w.node(name, xs, axis=int(c.attrs["axis"]))


def arguments(writer: GraphWriter, call: Call, xs: Sequence[str], dtype: str = "") -> list[str]:
    """The names of all arguments in order; literals become constants of ``dtype``.

    Without ``dtype``, that is the dtype of the first operand that is a tensor.
    """
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    dtype = dtype or (tensors[0].dtype if tensors else call.result.dtype)
    names = (x for x, o in zip(xs, call.operands, strict=True) if isinstance(o, Tensor))
    return [next(names) if isinstance(a, Tensor) else writer.scalar(a, dtype)
            for a in call.arguments]  # fmt: skip
