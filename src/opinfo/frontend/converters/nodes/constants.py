"""Results that torch itself computes before the program runs: those without data.

A loop over no elements leaves its sum unwritten, so reductions of empty tensors are constants here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from tvm import relax

from .arguments import operands

#: Operators that return the elements of their operand; `_to_copy` may change their dtype.
_COPIES = frozenset(f"{name}.default" for name in (
    "clone", "alias", "detach", "lift_fresh_copy", "_to_copy"))  # fmt: skip


def constant(values: Mapping[str, torch.Tensor], node: Any) -> torch.Tensor | None:
    """Return the elements of a node that are known: of a parameter, of a copy, and of `full`."""
    if node.op == "placeholder":
        return values.get(node.name)
    if node.op != "call_function":
        return None
    name, result = node.target.__name__, node.meta.get("val")
    if name in _COPIES and result.dtype == node.args[0].meta["val"].dtype:
        return constant(values, node.args[0])
    if name != "full.default" or not isinstance(node.args[1], (bool, int, float)):
        return None
    static = all(isinstance(size, int) for size in result.shape)
    number = torch.full((), node.args[1], dtype=result.dtype)
    return number.expand(result.shape) if static else None


def without_data(importer: Any, node: Any, declared: Any) -> Any:
    """Return the value of a node whose result is empty, or whose operands all are; else None."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in (
        node.target.tags
    ):
        return None
    results = declared if isinstance(declared, (tuple, list)) else [declared]
    if not results or not all(isinstance(x, torch.Tensor) for x in results):
        return None
    if all(map(_is_empty, results)):
        values = [_filled(importer, x, 0) for x in results]
    elif any(True for _ in operands(node)) and all(
        _is_empty(a.meta["val"]) for a in operands(node)
    ):
        computed = evaluated(node)
        computed = computed if isinstance(computed, (tuple, list)) else [computed]
        values = [_constant(importer, x, y) for x, y in zip(results, computed, strict=True)]
    else:
        return None
    return values if isinstance(declared, (tuple, list)) else values[0]


def evaluated(node: Any) -> Any:
    """Return what torch computes for empty tensors, and 2 for each symbolic size."""

    def value(x: Any) -> Any:
        x = x.meta["val"] if isinstance(x, torch.fx.Node) else x
        if isinstance(x, torch.Tensor):
            return torch.zeros([value(size) for size in x.shape], dtype=x.dtype)
        return 2 if isinstance(x, torch.SymInt) else x

    args, kwargs = pytree.tree_map(value, (node.args, node.kwargs))
    with torch.no_grad():
        return node.target(*args, **kwargs)


def _is_empty(x: torch.Tensor) -> bool:
    return any(isinstance(size, int) and size == 0 for size in x.shape)


def _constant(importer: Any, declared: torch.Tensor, value: torch.Tensor) -> Any:
    """Return a tensor of the declared shape with the elements of a value, which are all equal."""
    flat = value.reshape(-1)
    if not flat.numel():
        return _filled(importer, declared, 0)
    first = flat[0]
    if not bool(((flat == first) | (flat != flat)).all()):
        raise NotImplementedError("its operands are empty and its elements differ")
    return _filled(importer, declared, first.item())


def _filled(importer: Any, declared: torch.Tensor, number: Any) -> Any:
    return filled(importer, importer._shape(declared), number,
                  importer._convert_data_type(declared.dtype))  # fmt: skip


def filled(importer: Any, shape: Any, number: Any, dtype: str) -> Any:
    """Return a tensor of one number; TVM lowers no `full` of an infinity or NaN."""
    value, emit = relax.const(number, dtype), importer.block_builder.emit
    if isinstance(number, float) and not math.isfinite(number):
        return emit(relax.op.broadcast_to(value, relax.ShapeExpr(shape)))
    return emit(relax.op.full(relax.ShapeExpr(shape), value, dtype))
