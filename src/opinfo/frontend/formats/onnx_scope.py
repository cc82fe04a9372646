"""The names in a graph and their values, and the errors of its nodes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..checks.error import FrontendError, one_line, shortened
from ..checks.node_description import describe
from ..onnx_checks.onnx_schema import check_axis, check_growth, check_vectors
from ..onnx_checks.onnx_types import check_types
from ..onnx_checks.onnx_values import check_values
from ..onnx_graph.attributes import dtype_name
from ..onnx_graph.legality import why_illegal
from ..onnx_graph.onnx_node import OnnxNode, dims_of
from ..onnx_graph.values import NodeError, NotConvertible, TensorValue

#: Operators whose sizes depend on the elements of these inputs.
GROWING = {"Tile": (1,), "Pad": (1,), "Upsample": (1,), "Resize": (2, 3)}


def has_elements(value: Any) -> bool:
    """Return whether the elements of a value are known."""
    return isinstance(value, TensorValue) and value.elements is not None


def lookup(scope: Mapping[str, Any], name: str, what: str) -> Any:
    """Return the value of a name; the error says `what` it is."""
    if name not in scope:
        raise NotConvertible(f"{what} '{name}' is defined by no node, input or weight before it")
    return scope[name]


def define(proto: Any, values: Sequence[Any], scope: Any) -> None:
    """Give the outputs of a node their values; an outer name may be hidden, but none changed."""
    own = scope.maps[0] if isinstance(scope, ChainMap) else scope
    for name, value in zip(proto.output, values, strict=False):
        if name and name in own:
            raise NotConvertible(f"its output '{name}' is defined twice")
        if name:
            own[name] = value


def check_operands(node: OnnxNode) -> None:
    """Raise `FrontendError` for types and attributes that the operator does not have.

    Also for an axis outside the input, and for sizes that overflow.
    """
    check_types(node.op, node.opset, node.domain, [_dtype(v) for v in node.inputs])
    check_values(node.op, node.attrs)
    check_vectors(node.op, node.opset, [_rank(v) for v in node.inputs])
    check_axis(node.op, node.attr("axis"), lambda: node.rank(0))
    check_growth(node.op, _integers(node), (d for v in node.inputs for d in _sizes(v)))


def _dtype(value: Any) -> str | None:
    if value is None:
        return ""
    return value.dtype if isinstance(value, TensorValue) else None


def _rank(value: Any) -> int | None:
    if has_elements(value):
        return int(value.elements.ndim)
    sizes = getattr(getattr(getattr(value, "expr", None), "ty", None), "ndim", -1)
    return None if sizes < 0 else int(sizes)


def check_declared(names: Sequence[str], values: Sequence[Any], types: Mapping[str, str]) -> None:
    """Raise `NotConvertible` for outputs of a node whose types the graph declares otherwise."""
    for name, value in zip(names, values, strict=False):
        declared, own = types.get(name), _dtype(value)
        if declared and own and declared != own:
            raise NotConvertible(
                f"its output '{shortened(name, 80)}' has the type {own}, but the graph declares "
                f"it as {declared}"
            )


def declared_types(graph: Any) -> dict[str, str]:
    """Return the dtypes that a graph declares for its outputs."""
    types: dict[str, str] = {}
    for output in graph.output:
        kind = output.type.tensor_type.elem_type
        if kind:
            types[output.name] = dtype_name(kind)
    return types


def _sizes(value: Any) -> list[Any]:
    if has_elements(value):
        return list(value.elements.shape)
    return known_dims(value)


def _integers(node: OnnxNode) -> list[int]:
    """Return the numbers by which an operator may multiply a size, or that it may add."""
    numbers: list[int] = []
    for value in node.attrs.values():
        numbers += [x for x in (value if isinstance(value, list) else [value])
                    if isinstance(x, int)]  # fmt: skip
    for k in GROWING.get(node.op, ()):
        if node.has(k) and has_elements(node.inputs[k]):
            numbers += [int(x) for x in node.inputs[k].elements.reshape(-1)
                        if isinstance(x, int | np.integer) or _is_finite(x)]  # fmt: skip
    return numbers


def _is_finite(x: Any) -> bool:
    return isinstance(x, float | np.floating) and bool(np.isfinite(x))


def node_error(proto: Any, error: Exception, scope: Mapping[str, Any], opset: int) -> NodeError:
    """Return the error of a node with its name, operator, reason and the sizes in question."""
    dims: Sequence[Any] = getattr(error, "dims", ())
    text, illegal = one_line(error), ""
    if not isinstance(error, FrontendError):
        illegal = why_illegal(proto, scope, opset)
    if not isinstance(error, (NotConvertible, FrontendError)):
        dims = [] if illegal else [d for name in proto.input for d in known_dims(scope.get(name))]
        text = illegal or text
    return NodeError(f"{describe(proto)}: {text}", dims, bool(illegal))


def known_dims(value: Any) -> list[Any]:
    """Return the sizes of a tensor that is computed at run time; none for other values."""
    if not isinstance(value, TensorValue) or value.expr is None:
        return []
    try:
        return dims_of(value.expr)
    except NotConvertible:
        return []
