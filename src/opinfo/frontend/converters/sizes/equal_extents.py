"""Operands of one size that TVM cannot prove equal, as torch has proved or guarded them.

Before: ``add(x, y)`` of (8 * (n // 8),) and (n,), whose result has no shape; after: a check that
the sizes are equal, and ``add(x, reshape(y, (8 * (n // 8),)))``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tvm import relax

from .size_checks import emit_check

#: Operators that put tensors of equal sizes together.
_JOINING = ("cat.default", "stack.default")


def equal_extents(importer: Any, node: Any, replaced: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the operands of a node whose extents have another form, reshaped.

    They are those of elementwise operators, and tensors that are joined.

    Args:
        importer: The importer.
        node: The node.
        replaced: Operands that are replaced by others for this node.
    """
    joined = node.target.__name__ in _JOINING
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not (joined or pointwise) or node in importer.chosen:
        return {}
    tensors = [a for a in node.all_input_nodes if _is_sized(importer, a, replaced)]
    rank = max((a.meta["val"].ndim for a in tensors), default=0)
    if joined:  # torch ignores empty vectors
        tensors = [a for a in tensors if a.meta["val"].ndim == rank]
    if len(tensors) < 2:
        return {}
    free = _free_axis(node, rank)
    known: dict[int, tuple[Any, Any]] = {}
    out = {}
    for arg in tensors:
        value = replaced.get(arg, importer.env[arg])
        declared, dims = arg.meta["val"].shape, list(value.ty.shape)
        changed = False
        for back in range(1, len(dims) + 1):
            extent, expr = dims[-back], _expression(declared[-back])
            if back == free or importer._equal(extent, 1):
                continue
            first, first_expr = known.setdefault(back, (extent, expr))
            if first is not extent and not importer._equal(first, extent):
                if not _is_equal(importer, first_expr, expr):
                    return {}
                dims[-back], changed = first, True
        if changed:
            shape = relax.ShapeExpr(dims)
            out[arg] = importer.block_builder.emit(relax.op.reshape(value, shape))
    return out


def _free_axis(node: Any, rank: int) -> int | None:
    """Return the axis along which tensors are joined, counted from the end; None for others."""
    if node.target.__name__ != "cat.default":
        return None
    axis = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    return rank - axis % rank


def _is_sized(importer: Any, arg: Any, replaced: Mapping[Any, Any]) -> bool:
    """Return whether an operand is a tensor of real numbers whose shape is known and declared."""
    declared = arg.meta.get("val")
    if not isinstance(declared, torch.Tensor) or arg in importer.chosen:
        return False
    ty = getattr(replaced.get(arg, importer.env.get(arg)), "ty", None)
    shape = ty.shape if isinstance(ty, relax.TensorType) else None
    return isinstance(shape, relax.ShapeExpr) and len(shape) == declared.ndim


def _expression(size: Any) -> Any:
    import sympy  # type: ignore[import-untyped]

    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _is_equal(importer: Any, left: Any, right: Any) -> bool:
    """Return whether a check that two sizes are equal was emitted, or both are the same."""
    import sympy

    try:
        emit_check(importer.block_builder, sympy.Eq(left, right), importer._symbols)
    except NotImplementedError:
        return False
    return True
