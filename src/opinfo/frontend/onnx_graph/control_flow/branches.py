"""The branches of a conditional that stays.

A branch with a node that no runtime can execute, for the sizes of its inputs, becomes one that
fails with the reason when it is taken. Exporters write such branches where a model has several
input formats, and only one of them can fit the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...checks.size_check import failing
from ..onnx_node import dims_of
from ..values import NodeError, NotConvertible, TensorValue, of_expr


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
    (then, first), (otherwise, second) = _branches(graph, graphs, scope)
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


def _branches(
    graph: Any, graphs: Sequence[Any], scope: Mapping[str, Any]
) -> list[tuple[Any, list[Any]]]:
    """Import the branches; at most one may be illegal, and has the types of the other."""
    results: list[Any] = []
    errors: list[NodeError] = []
    for body in graphs:
        try:
            results.append(_branch(graph, body, scope))
        except NodeError as error:
            errors.append(error)
            if not error.is_illegal or len(errors) > 1:
                raise
            results.append(None)
    for reason in map(str, errors):
        graph.warnings.append(f"{reason}; a branch of a conditional fails when it is taken")
        (legal,) = [pair for pair in results if pair is not None]
        results[results.index(None)] = _failing(graph, reason, legal)
    return results


def _failing(graph: Any, reason: str, legal: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
    """Return a branch that fails with a reason when taken, with results like a legal one's."""
    inner = _defined(legal[0])
    graph.builder._begin_binding_block()
    try:
        bound = []
        for like in legal[1]:
            dims = [tirx.Var(f"never_{k}", "int64") if _mentions(dim, inner) else dim
                    for k, dim in enumerate(like.ty.shape.values)]  # fmt: skip
            dtype = str(like.ty.dtype)
            call = failing(reason, len(dims), dtype)
            bound.append(graph.builder.match_cast(call, relax.TensorType(dims, dtype)))
        result = bound[0] if len(bound) == 1 else graph.builder.emit(relax.Tuple(bound))
    finally:
        block = graph.builder._end_block()
    return relax.SeqExpr([block], result), bound


def _defined(body: Any) -> set[Any]:
    """Return the symbols that a branch defines by its casts."""
    symbols: set[Any] = set()
    for block in body.blocks:
        for binding in block.bindings:
            if isinstance(binding, relax.MatchCast):
                for dim in binding.ty.shape.values:
                    tvm_ffi.structural_walk(dim, (tvm.ir.Var, symbols.add))
    return symbols


def _mentions(dim: Any, symbols: set[Any]) -> bool:
    mentioned: set[Any] = set()
    tvm_ffi.structural_walk(dim, (tvm.ir.Var, mentioned.add))
    return bool(mentioned & symbols)


def _branch(graph: Any, body: Any, scope: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    known = graph.arithmetic.aliases  # what the branch checks at run time holds inside it only
    graph.builder._begin_binding_block()
    try:
        values = graph.run(body, [], scope)
        if not all(isinstance(value, TensorValue) for value in values):
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
