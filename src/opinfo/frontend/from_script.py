"""TVMScript files.

TVM's parser evaluates the expressions it reads, so a file could run anything. Only declarative
text is let through: decorated functions and classes, literal constants, the metadata that
`script(show_meta=True)` prints. Imports are read for their aliases and never carried out.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import tvm

from .error import FrontendError, one_line
from .from_json import as_module
from .script_guard import NAMESPACES, check
from .shapes import Shapes


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read `path`. Raises `FrontendError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FrontendError(f"{path}: not UTF-8 text: {one_line(error)}") from error
    return from_text(text, str(path))


def from_text(text: str, where: str = "<script>") -> tvm.IRModule:
    """Parse TVMScript: one module class, or functions. Raises `FrontendError` naming `where`."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise FrontendError(f"{where}: not Python text: {one_line(error)}") from error
    scope: dict[str, Any] = {}
    mods = [m for node in body if (m := _statement(node, text, scope, where)) is not None]
    if not mods:
        raise FrontendError(f"{where}: no @I.ir_module, @T.prim_func or @R.function found")
    merged: dict[Any, Any] = {}
    for mod in mods:
        merged.update({gvar.name_hint: func for gvar, func in mod.functions_items()})
    return mods[0] if len(mods) == 1 else tvm.IRModule(merged)


def _statement(node: ast.stmt, text: str, scope: dict[str, Any], where: str) -> tvm.IRModule | None:
    match node:
        case ast.Import() | ast.ImportFrom():
            _alias(node, scope)
        case ast.Expr(value=ast.Constant()):
            pass
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope[name] = _value(value, node, where)
        case ast.FunctionDef() | ast.ClassDef() if node.decorator_list:
            check(node, {**_namespaces(), **scope}, where)
            return _parse(node, text, scope, where)
        case _:
            told = "undecorated definition" if hasattr(node, "name") else type(node).__name__
            raise FrontendError(f"{where}:{node.lineno}: {told} is not TVMScript")
    return None


def _alias(node: ast.Import | ast.ImportFrom, scope: dict[str, Any]) -> None:
    """Honour `from tvm.script import tirx as X`; anything else imported stays undefined."""
    if isinstance(node, ast.ImportFrom) and node.module in ("tvm.script", "tvm.script.parser"):
        for name in node.names:
            if name.name in NAMESPACES:
                scope[name.asname or name.name] = _namespaces()[name.name]


def _value(value: ast.expr, node: ast.stmt, where: str) -> Any:
    try:
        match value:
            case ast.Call(func=func, args=[ast.Constant(value=str(text))], keywords=[]) if (
                ast.unparse(func) == "tvm.ir.load_json"
            ):
                return tvm.ir.load_json(text)
        return ast.literal_eval(value)
    except Exception as error:  # whatever json and TVM's reader raise
        told = one_line(error)
        raise FrontendError(
            f"{where}:{node.lineno}: neither literal nor metadata: {told}"
        ) from error


def _parse(
    node: ast.FunctionDef | ast.ClassDef, text: str, scope: dict[str, Any], where: str
) -> tvm.IRModule:
    from tvm.script.parser.core.entry import parse

    first = min(d.lineno for d in node.decorator_list) - 1
    source = "\n".join(text.splitlines()[first : node.end_lineno])
    try:
        found = parse(source, {**_namespaces(), **scope})
    except Exception as error:  # diagnostics, ParserError, and what evaluation raises
        raise FrontendError(f"{where}:{first + 1}: {one_line(error)}") from error
    return as_module(found, Path(where))


def _namespaces() -> dict[str, Any]:
    from tvm.script.parser import ir, relax, tirx

    return {"I": ir, "ir": ir, "R": relax, "relax": relax, "T": tirx, "tirx": tirx, "tir": tirx}
