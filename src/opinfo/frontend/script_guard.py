"""Which Python expressions a TVMScript file may hold.

The text is evaluated by TVM's parser. What must not be reachable: modules (`T.entry.inspect.os`),
builtins that act (`open`, `eval`), attributes that lead to code (`__globals__`), and the few
TVMScript functions that compile or call Python. A namespace may only be used as `T.something`.
"""

from __future__ import annotations

import ast
import builtins
from types import ModuleType
from typing import Any

from .error import FrontendError

NAMESPACES = ("I", "ir", "R", "relax", "T", "tirx", "tir")
SUBSPACES = ("builtin", "ccl", "dist", "grad", "image", "memory", "nn", "vision", "vm")
BUILTINS = frozenset(
    "abs bool dict enumerate float int len list max min range reversed set slice sorted str sum "
    "tuple zip any all".split()
)
REFUSED = frozenset(
    "call_kernel call_py_func emit_te external_kernel jit pyfunc llvm_lookup_intrinsic_id".split()
)
INSIDE = frozenset(
    "gi_frame gi_code cr_frame cr_code ag_frame ag_code tb_frame f_back f_builtins f_code "
    "f_globals f_locals co_code".split()
)


def check(node: ast.stmt, scope: dict[str, Any], where: str) -> None:
    """Raise `FrontendError` with the line of the first expression that is not let through."""
    roots = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    for part in ast.walk(node):
        reason = _reason(part, scope, roots)
        if reason:
            line = getattr(part, "lineno", node.lineno)
            raise FrontendError(f"{where}:{line}: {reason} is not allowed in a TVMScript file")


def _reason(node: ast.AST, scope: dict[str, Any], roots: set[int]) -> str:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return f"'{ast.unparse(node)}'"
        case ast.Name(id=name):
            return _name_reason(name, scope, id(node) in roots)
        case ast.Attribute(attr=attr):
            if attr.startswith("_") or attr in INSIDE | REFUSED:
                return f"'.{attr}'"
            return _chain_reason(node, scope, id(node) in roots)
    return ""


def _name_reason(name: str, scope: dict[str, Any], is_root: bool) -> str:
    if isinstance(scope.get(name), ModuleType):
        return "" if is_root else f"'{name}' without an attribute"
    if name.startswith("__") or (hasattr(builtins, name) and name not in BUILTINS):
        return f"'{name}'"
    return ""


def _chain_reason(node: ast.Attribute, scope: dict[str, Any], is_root: bool) -> str:
    """Follow `T.a.b`: a module is passed through only if it is a namespace of operators."""
    path = ast.unparse(node).split(".")
    value = scope.get(path[0])
    for depth, name in enumerate(path[1:]):
        if not isinstance(value, ModuleType):
            return ""
        value = getattr(value, name, None)
        if isinstance(value, ModuleType) and (depth or name not in SUBSPACES):
            return f"module '{'.'.join(path[: depth + 2])}'"
    if isinstance(value, ModuleType) and not is_root:
        return f"'{'.'.join(path)}' without an attribute"
    return ""
