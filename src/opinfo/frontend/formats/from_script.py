"""Read TVMScript files.

TVM's parser evaluates expressions, so an unchecked file could run arbitrary code. Only declarative
syntax is allowed: decorated functions and classes, literal constants, and the metadata of
`script(show_meta=True)`. Imports only define aliases and are never executed. The parser gets
exactly the checked tree, as text of `ast.unparse`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tvm

from ..checks.error import FrontendError, one_line
from ..checks.input_shapes import Shapes
from ..script.allowed_names import BUILTINS, NAMESPACES, namespaces
from ..script.allowed_syntax import Refused, check, dimension
from .from_json import as_module, loaded

_LINE = re.compile(r"--> [^\n]*?:(\d+):\d+")


def load(path: Path, shapes: Shapes) -> tvm.IRModule:
    """Read a file; raises `FrontendError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FrontendError(f"{path}: not UTF-8 text: {one_line(error)}") from error
    return from_text(text, str(path))


def from_text(text: str, where: str = "<script>") -> tvm.IRModule:
    """Parse a module class or functions; raises `FrontendError` that names `where`."""
    try:
        body = ast.parse(text).body
        scope = _Scope(where)
        mods = [mod for node in body if (mod := scope.statement(node)) is not None]
    except (SyntaxError, ValueError) as error:
        if isinstance(error, FrontendError):
            raise
        raise FrontendError(f"{where}: not Python text: {one_line(error)}") from error
    except (RecursionError, MemoryError) as error:
        raise FrontendError(f"{where}: its expressions are nested too deeply") from error
    if not mods:
        raise FrontendError(f"{where}: no @I.ir_module, @T.prim_func or @R.function found")
    merged: dict[Any, Any] = {}
    for mod in mods:
        merged.update({gvar.name_hint: func for gvar, func in mod.functions_items()})
    return mods[0] if len(mods) == 1 else tvm.IRModule(merged)


class _Scope:
    """Names that the statements of a file have defined so far."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.spaces: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def statement(self, node: ast.stmt) -> tvm.IRModule | None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_free(name):
                self.values[name] = self._value(value, name)
            case ast.FunctionDef() | ast.ClassDef() if node.decorator_list:
                return self._module(node)
            case _:
                what = "undecorated definition" if hasattr(node, "name") else type(node).__name__
                raise self._error(node.lineno, f"{what} is not TVMScript")
        return None

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Define aliases such as `from tvm.script import tirx as X`; ignore other imports."""
        if isinstance(node, ast.ImportFrom) and node.module in ("tvm.script", "tvm.script.parser"):
            for name in node.names:
                if name.name in NAMESPACES and _is_free(name.asname or ""):
                    self.spaces[name.asname or name.name] = NAMESPACES[name.name]

    def _value(self, value: ast.expr, name: str) -> Any:
        """Evaluate a literal, `TypeVar("n")` or the metadata."""
        try:
            match value:
                case ast.Call(func=func, args=[ast.Constant(value=str(text))], keywords=[]):
                    if ast.unparse(func) == "tvm.ir.load_json":
                        return _metadata(text)
                    if ast.unparse(func) == "TypeVar" and text == name:
                        return TypeVar(text)
            return _literal(ast.literal_eval(value))
        except Exception as error:  # json and TVM's reader raise various types
            reason = f"neither literal nor metadata: {one_line(error)}"
            raise self._error(value.lineno, reason) from error

    def _module(self, node: ast.FunctionDef | ast.ClassDef) -> tvm.IRModule:
        from tvm.script.parser.core.entry import parse

        source = ast.unparse(node)
        (tree,) = ast.parse(source).body
        lines = _lines(tree, node)
        try:
            check(tree, self.spaces)
        except Refused as error:
            reason = f"{error} is not allowed in a TVMScript file"
            raise self._error(lines.get(error.line or 0, node.lineno), reason) from error
        spaces = namespaces()
        scope = {name: spaces[key] for name, key in {**NAMESPACES, **self.spaces}.items()}
        try:
            with _without_builtins():
                result = parse(source, {**scope, **self.values, "__builtins__": BUILTINS})
        except Exception as error:  # diagnostics, ParserError, and what evaluation raises
            place = _LINE.search(str(error))
            line = lines.get(int(place[1]), node.lineno) if place else node.lineno
            raise self._error(line, one_line(error)) from error
        return as_module(result, Path(self.where))

    def _error(self, line: int, reason: str) -> FrontendError:
        return FrontendError(f"{self.where}:{line}: {reason}")


def _is_free(name: str) -> bool:
    """Return whether a file may define this name."""
    return not name.startswith("__") and name not in BUILTINS


def _literal(value: Any) -> Any:
    """Return a number, identifier or tuple; raises ``ValueError`` for anything else."""
    if isinstance(value, tuple | list):
        return type(value)(_literal(v) for v in value)
    if isinstance(value, bool | int | float) or (isinstance(value, str) and value.isidentifier()):
        return value
    raise ValueError(f"{value!r:.60} is neither a number nor an identifier")


def _metadata(text: str) -> Any:
    """Load metadata; raises ``ValueError`` if it contains strings or containers."""
    metadata = loaded(text)
    for key in metadata:
        for value in metadata[key]:
            if isinstance(value, str) or hasattr(value, "__len__") or hasattr(value, "items"):
                raise ValueError(f"the metadata contains {type(value).__name__}")
    return metadata


def _lines(tree: ast.AST, origin: ast.AST) -> dict[int, int]:
    """Map lines of the unparsed text to lines of the file."""
    lines: dict[int, int] = {}
    for new, old in zip(ast.walk(tree), ast.walk(origin), strict=True):
        if type(new) is not type(old):
            raise ValueError(f"{type(old).__name__} would be parsed as {type(new).__name__}")
        if hasattr(new, "lineno") and hasattr(old, "lineno"):
            lines.setdefault(new.lineno, old.lineno)
    return lines


@contextmanager
def _without_builtins() -> Iterator[None]:
    """Restrict the builtins and shape strings that TVM's parser evaluates."""
    from tvm.relax.script.parser import entry
    from tvm.script.parser.core import evaluator

    before = evaluator.__dict__["__builtins__"], entry._eval_shape
    evaluator.__dict__["__builtins__"], entry._eval_shape = BUILTINS, _eval_shape
    try:
        yield
    finally:
        evaluator.__dict__["__builtins__"], entry._eval_shape = before


def _eval_shape(value: Any, scope: dict[str, Any] | None) -> Any:
    """Evaluate a dimension; the string is checked again, since a value may have computed it."""
    if not isinstance(value, str):
        return value
    tree = dimension(value)
    check(ast.Return(value=tree), {})
    code = compile(ast.Expression(body=tree), "<shape>", "eval")
    return eval(code, {**(scope or {}), "__builtins__": {}})
