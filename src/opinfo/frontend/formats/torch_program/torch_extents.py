"""Give the inputs of an exported program the requested extents before it is decomposed.

    Before: x: float32[s77, 64] in the metadata of the graph's input, x: (8, 64) requested
    After:  x: float32[8, 64]

torch decomposes a program by tracing it. With numbers in place of symbols that takes half the time,
as no symbolic size is computed, simplified or compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...checks.input_shapes import Shapes


def bind_extents(program: Any, shapes: Shapes) -> dict[Any, Any]:
    """Replace the symbolic inputs of a program by inputs of the requested shapes.

    Nothing is replaced unless the request decides all symbols, and each within its range: another
    request is for the importer to carry out, or to refuse.

    Args:
        program: A `torch.export.ExportedProgram`; the metadata of its inputs is changed.
        shapes: The requested shapes by input.

    Returns:
        The former values of the changed inputs by node, for `restore`.
    """
    symbolic = symbolic_inputs(program)
    extents = _extents(program, symbolic, shapes)
    if not extents:
        return {}
    former = {node: node.meta["val"] for node in symbolic.values()}
    for node, value in former.items():
        node.meta["val"] = _concrete(value, extents)
    return former


def restore(former: dict[Any, Any]) -> None:
    """Undo `bind_extents`."""
    for node, value in former.items():
        node.meta["val"] = value


def symbolic_inputs(program: Any) -> dict[str, Any]:
    """Return the nodes of the inputs with symbolic sizes by name."""
    inputs = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return {name: node for name, node in inputs.items() if _symbols(node.meta.get("val"))}


def requested_extents(
    symbolic: Mapping[str, Any], shapes: Shapes
) -> list[tuple[str, int, Any, int]]:
    """Return input, axis, size and requested extent of each dimension that a request decides."""
    out = []
    for name, node in symbolic.items():
        dims, shape = getattr(node.meta["val"], "shape", ()), shapes.get(name, ())
        if len(dims) == len(shape):
            out += [(name, axis, size_expression(dim), extent)
                    for axis, (dim, extent) in enumerate(zip(dims, shape, strict=True))
                    if isinstance(extent, int)]  # fmt: skip
    return out


def solve(requested: Sequence[tuple[Any, int]]) -> dict[Any, int]:
    """Return the symbols that are decided where each size is the requested extent."""
    extents: dict[Any, int] = {}
    for expr, extent in sorted(requested, key=lambda pair: not pair[0].is_Symbol):
        extents |= _solved(expr.subs(extents), extent)
    return extents


def may_equal(expr: Any, extent: int) -> bool:
    """Return False if no values of the symbols give a size the extent, as for `4 * n == 21`."""
    import sympy  # type: ignore[import-untyped]

    if expr.is_Integer:
        return bool(expr == extent)
    if len(expr.free_symbols) != 1 or not expr.is_polynomial():
        return True
    return bool(sympy.solve(expr - extent, *expr.free_symbols))


def _extents(program: Any, symbolic: Mapping[str, Any], shapes: Shapes) -> dict[Any, int]:
    """Return the value of each symbol of the inputs; empty if the request does not decide all."""
    requested: list[tuple[Any, Any]] = []
    for name, node in symbolic.items():
        value, shape = node.meta["val"], shapes.get(name, ())
        if not hasattr(value, "shape") or len(shape) != len(value.shape):
            return {}
        requested += zip(map(size_expression, value.shape), shape, strict=True)
    if not all(isinstance(extent, int) for _, extent in requested):
        return {}
    extents = solve(requested)
    if any(expr.subs(extents) != extent for expr, extent in requested):
        return {}
    if set().union(*(_symbols(node.meta["val"]) for node in symbolic.values())) - extents.keys():
        return {}
    ranges = program.range_constraints
    inside = all(s not in ranges or ranges[s].lower <= e <= ranges[s].upper
                 for s, e in extents.items())  # fmt: skip
    return extents if inside else {}


def _solved(expr: Any, extent: int) -> dict[Any, int]:
    """Return the value of the only symbol of ``expr == extent``; empty if there is none."""
    import sympy

    if len(expr.free_symbols) != 1:
        return {}
    (symbol,) = expr.free_symbols
    solutions = [extent] if expr.is_Symbol else sympy.solve(expr - extent, symbol)
    return {symbol: int(solutions[0])} if len(solutions) == 1 else {}


def size_expression(dim: Any) -> Any:
    """Return an extent as an expression of sympy."""
    import sympy

    return sympy.Integer(dim) if isinstance(dim, int) else dim.node.expr


def _symbols(value: Any) -> set[Any]:
    """Return the symbols in the sizes and strides of a tensor, or in a number."""
    if not hasattr(value, "shape"):
        return set(size_expression(value).free_symbols) if hasattr(value, "node") else set()
    return {s for e in (*value.shape, *value.stride()) for s in size_expression(e).free_symbols}


def _concrete(value: Any, extents: dict[Any, int]) -> Any:
    """Return a fake tensor like another one, with numbers for its symbols."""
    import torch

    def numbers(exprs: Any) -> list[int]:
        return [int(size_expression(e).subs(extents)) for e in exprs]

    with value.fake_mode:
        return torch.empty_strided(numbers(value.shape), numbers(value.stride()),
                                   dtype=value.dtype, device=value.device,
                                   requires_grad=value.requires_grad)  # fmt: skip
