"""Lines of Python on the sizes of a program's inputs, as expressions of sympy.

`L['x'].size()[0] > L['d']['k'].size()[1]`: `L` holds the arguments of `forward` by name.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from .torch_extents import size_expression

#: Limits on the depth and the characters of a line, which a file may choose freely.
_DEEPEST = 100
_LONGEST = 4000


class SourceError(Exception):
    """A line has more than integer arithmetic and comparisons of sizes.

    Attributes:
        symbols: The symbols of the sizes in the line; empty if a size is not known.
    """

    def __init__(self, symbols: frozenset[Any]) -> None:
        super().__init__("expected integer arithmetic and comparisons of sizes")
        self.symbols = symbols


class _Unknown(Exception):
    """A part of a line is not in the grammar."""


def input_sources(program: Any) -> dict[tuple[Any, ...], Any]:
    """Return the values in the metadata of a program's inputs by their paths in `L`.

    The inputs are numbered as well, `flat_args`; `args_0` is the first of the arguments `*args`.
    """
    from torch.utils import _pytree as pytree

    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = list(program.graph_signature.user_inputs)
    values = [nodes.get(name) if isinstance(name, str) else name for name in names]
    out: dict[tuple[Any, ...], Any] = {("flat_args", k): value for k, value in enumerate(values)}
    places = pytree.tree_unflatten(list(range(len(values))), program.call_spec.in_spec)
    positional, keyword = places
    signature = program.module_call_graph[0].signature
    own = getattr(signature, "forward_arg_names", None)
    own = own or [names[p] if isinstance(p, int) else "" for p in positional]
    arguments = {**dict(zip(own, positional, strict=False)), **keyword}
    for keys, place in pytree.tree_flatten_with_path(arguments)[0]:
        path = tuple(getattr(key, "key", getattr(key, "idx", None)) for key in keys)
        out[path] = values[place]
        if numbered := re.fullmatch(r"(.+)_(\d+)", str(path[0])):
            out.setdefault((numbered[1], int(numbered[2]), *path[1:]), values[place])
    return out


def parse(line: str, sources: Mapping[tuple[Any, ...], Any]) -> Any:
    """Return a condition as an expression of sympy.

    Raises:
        SourceError: It has more than integer arithmetic and comparisons of sizes.
    """
    if len(line) > _LONGEST:
        raise SourceError(frozenset())
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SourceError(frozenset()) from error
    try:
        return _parsed(tree, sources, 0)
    except (_Unknown, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise SourceError(_mentioned(tree, sources)) from error


def _mentioned(tree: ast.expr, sources: Mapping[tuple[Any, ...], Any]) -> frozenset[Any]:
    """Return the symbols of the inputs that a line names; empty if it names an unknown input."""
    symbols: frozenset[Any] = frozenset()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            value = sources.get(_path(node.value) or ())
            if value is None:
                return frozenset()
            dims = [size_expression(dim) for dim in getattr(value, "shape", ())]
            symbols = symbols.union(*(dim.free_symbols for dim in dims))
    return symbols


def _parsed(node: ast.expr, sources: Mapping[tuple[Any, ...], Any], depth: int) -> Any:
    import sympy  # type: ignore[import-untyped]

    def inner(part: ast.expr) -> Any:
        return _parsed(part, sources, depth + 1)

    if depth > _DEEPEST:
        raise _Unknown
    match node:
        case ast.Constant(value=bool(value)):
            return sympy.true if value else sympy.false
        case ast.Constant(value=int(value)):
            return sympy.Integer(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -inner(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return sympy.Not(inner(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _arithmetic():
            return _arithmetic()[type(op)](inner(left), inner(right))
        case ast.BoolOp(op=op, values=parts):
            return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*map(inner, parts))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            parts = [inner(part) for part in (left, *comparators)]
            return sympy.And(*(_comparison(op)(a, b) for op, a, b
                               in zip(ops, parts[:-1], parts[1:], strict=True)))  # fmt: skip
    return _size(node, sources)


def _arithmetic() -> Mapping[type, Callable[[Any, Any], Any]]:
    from torch.utils._sympy.functions import FloorDiv, PythonMod

    return {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
            ast.FloorDiv: FloorDiv, ast.Mod: PythonMod}  # fmt: skip


def _comparison(op: ast.cmpop) -> Callable[[Any, Any], Any]:
    import sympy

    kinds = {ast.Eq: sympy.Eq, ast.NotEq: sympy.Ne, ast.Lt: sympy.Lt, ast.LtE: sympy.Le,
             ast.Gt: sympy.Gt, ast.GtE: sympy.Ge}  # fmt: skip
    if type(op) not in kinds:
        raise _Unknown
    kind: Callable[[Any, Any], Any] = kinds[type(op)]
    return kind


def _size(node: ast.expr, sources: Mapping[tuple[Any, ...], Any]) -> Any:
    """Return a dimension `L[...].size()[k]`, or a number `L[...]`, that is an input."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=place, attr="size"), args=[], keywords=[]),
            slice=ast.Constant(value=int(axis)),
        ):
            shape = getattr(sources.get(_path(place) or ()), "shape", ())
            if 0 <= axis < len(shape):
                return size_expression(shape[axis])
        case ast.Subscript():
            value = sources.get(_path(node) or ())
            if isinstance(value, int) or getattr(getattr(value, "node", None), "expr", None):
                return size_expression(value)
    raise _Unknown


def _path(node: ast.expr) -> tuple[Any, ...] | None:
    """Return the keys of `L['d'][0]`; None for another expression."""
    keys: list[Any] = []
    while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        keys.append(node.slice.value)
        node = node.value
    return tuple(reversed(keys)) if isinstance(node, ast.Name) and node.id == "L" else None
