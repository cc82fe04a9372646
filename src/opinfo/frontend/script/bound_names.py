"""Names in a TVMScript file: what binds them, and paths of attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def attribute_path(node: ast.expr) -> list[str]:
    """Split `a.b.c` into names; the first is empty if the root is not a name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names, node = [node.attr, *names], node.value
    return [node.id if isinstance(node, ast.Name) else "", *names]


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of variables, parameters, functions and classes, once for each binding."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def assigned_names(node: ast.AST) -> list[str]:
    """Return the name that a function or an assignment binds, as a list."""
    match node:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
    return []


def module_aliases(tree: ast.AST, module: str | None) -> set[str]:
    """Return the names that are always bound to the module: `cls = Module`."""
    if module is None:
        return set()
    aliases, stores = set(), list(bound_names(tree))
    names = [
        name
        for node in ast.walk(tree)
        for name in assigned_names(node) if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name) and node.value.id == module
    ]  # fmt: skip
    for name in set(names):
        if stores.count(name) == names.count(name):
            aliases.add(name)
    return aliases
