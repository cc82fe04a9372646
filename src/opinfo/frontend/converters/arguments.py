"""The arguments of a node by the names of its operator's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

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
