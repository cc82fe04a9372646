"""The branches of a conditional that stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from .onnx_node import dims_of
from .values import ListValue, NotConvertible, of_expr


def branch_values(
    graph: Any, condition: Any, graphs: Sequence[Any], scope: Mapping[str, Any]
) -> list[Any]:
    """Emit an `If` with two graphs as its branches and return its values.

    Args:
        graph: The import.
        condition: A scalar tensor of bools.
        graphs: What is computed if the condition holds, and otherwise.
        scope: The values visible in the graphs.
    """
    branches = [_branch(graph, body, scope) for body in graphs]
    (then, first), (otherwise, second) = branches
    if len(first) != len(second):
        raise NotConvertible(f"its branches have {len(first)} and {len(second)} outputs")
    for a, b in zip(first, second, strict=True):
        if a.ty.ndim != b.ty.ndim or str(a.ty.dtype) != str(b.ty.dtype):
            raise NotConvertible(f"its branches return {a.ty} and {b.ty}, expected equal types")
    result = graph.builder.emit(relax.If(condition, then, otherwise))
    if len(first) == 1:
        return [of_expr(_sized(graph, result, first[0], second[0]))]
    parts = [graph.builder.emit(relax.TupleGetItem(result, k)) for k in range(len(first))]
    return [
        of_expr(_sized(graph, part, a, b)) for part, a, b in zip(parts, first, second, strict=True)
    ]


def _branch(graph: Any, body: Any, scope: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    known = graph.arithmetic.aliases  # what the branch checks at run time holds inside it only
    graph.builder._begin_binding_block()
    try:
        values = graph.run(body, [], scope)
        if any(isinstance(value, ListValue) or value is None for value in values):
            raise NotConvertible("a branch returns a sequence or nothing, expected tensors")
        exprs = [graph.tensor(value) for value in values]
        bound = [graph.builder.emit(e) if not isinstance(e, relax.Var) else e for e in exprs]
        result = bound[0] if len(bound) == 1 else graph.builder.emit(relax.Tuple(bound))
    finally:
        block = graph.builder._end_block()
        graph.arithmetic.aliases = known
    return relax.SeqExpr([block], result), bound


def _sized(graph: Any, result: Any, a: Any, b: Any) -> Any:
    """Give sizes in which the branches differ symbols of their own."""
    if isinstance(result.ty.shape, relax.ShapeExpr):
        return result
    dims = [
        x if graph.arithmetic.equal(x, y) else tirx.Var(f"branch_{k}", "int64")
        for k, (x, y) in enumerate(zip(dims_of(a), dims_of(b), strict=True))
    ]
    return graph.builder.match_cast(result, relax.TensorType(dims, a.ty.dtype))
