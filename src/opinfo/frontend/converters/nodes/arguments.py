"""The arguments of a node by the names of its operator's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tvm import relax, tirx

#: Converts a node, given the importer; see `program_importer`.
Converter: TypeAlias = "Callable[[Any, Any], Any]"


def arguments(importer: Any, node: Any) -> dict[str, Any]:
    """Return a node's arguments as Relax expressions and constants, with the schema's defaults."""
    schema = node.target._schema.arguments
    values = {a.name: a.default_value for a in schema if a.has_default_value()}
    values |= {a.name: value for a, value in zip(schema, node.args, strict=False)}
    values |= node.kwargs
    return {name: importer._retrieve_args(value) for name, value in values.items()}


def operands(node: Any) -> Iterator[Any]:
    """Yield the nodes among the arguments whose values are tensors."""
    yield from (a for a in node.all_input_nodes if hasattr(a.meta.get("val"), "dtype"))


def is_symbolic(value: Any) -> bool:
    """Return whether a torch value is a size, a number or a truth value known at run time."""
    import torch

    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def positive(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis


def number_result(value: bool | int | float) -> Any:
    """Return a number that a program returns, as TVM's expression."""
    return tirx.const(value, {bool: "bool", int: "int64"}.get(type(value), "float64"))


def tensor(importer: Any, value: Any, dtype: Any) -> Any:
    """Return a tensor, a number or a size as a tensor of a dtype."""
    if isinstance(value, (bool, int, float)):
        return relax.const(value, dtype)
    if not isinstance(value.ty, relax.TensorType):
        return importer._prim_value_to_scalar_tensor(value, str(dtype))
    return value


#: Operators along an axis; torch takes a tensor without axes for a vector of one element.
_ALONG = frozenset(
    "_softmax _log_softmax cumsum cumprod logcumsumexp cummax cummin flip sort topk kthvalue "
    "median sum mean prod amax amin max min argmax argmin any var var_mean gather "
    "index_select".split()
)


def without_axes(node: Any) -> list[Any]:
    """Return the operands without axes of an operator along an axis."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name.partition("::")[2] not in _ALONG:
        return []
    if not any(a.name.startswith("dim") for a in schema.arguments):
        return []
    return [a for a in operands(node) if a.meta["val"].ndim == 0]
