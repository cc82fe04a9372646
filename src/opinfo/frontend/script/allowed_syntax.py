"""The syntax that a TVMScript file may use: an allow list over its tree.

TVM's parser evaluates expressions with Python, and strings in shapes as expressions. So names of a
namespace must be listed (`allowed_names`), attributes of values must be in `FIELDS`, only named
functions are called, and a string is either an argument that TVM does not evaluate or an expression
checked in the same way. No string is ever computed.
"""

from __future__ import annotations

import ast
import builtins
import re

from .allowed_names import BUILTINS, NAMESPACES, lookup
from .bound_names import assigned_names, attribute_path, bound_names, module_aliases
from .string_content import StringContent


class Refused(Exception):
    """Syntax that is not allowed, and its line."""

    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.line: int | None = getattr(node, "lineno", None)


#: Nodes that are allowed if their children are.
PLAIN = (
    ast.Return, ast.While, ast.If, ast.With, ast.Pass, ast.Break, ast.Continue,
    ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Slice,
    ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop,
)  # fmt: skip
OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor,
    ast.LShift, ast.RShift,
)  # fmt: skip
#: Attributes of values: of buffers, variables and expressions.
FIELDS = frozenset("access_ptr astype data dtype elem_offset shape strides ty vload vstore".split())
#: Calls that evaluate a string in their first argument or in `shape`.
SHAPED = ("Buffer", "Shape", "Tensor", "match_buffer")
_KEY = re.compile(r"[\w.]+", re.ASCII)
DECORATORS = {"I.ir_module", "R.function", "T.prim_func"}


def check(tree: ast.stmt, scope: dict[str, str]) -> None:
    """Raise `Refused` for the first node of a function or class that is not allowed.

    Args:
        tree: A decorated function or class.
        scope: The file's names of `I`, `R` and `T`.
    """
    _SyntaxChecker(tree, scope).statement(tree)


class _SyntaxChecker:
    """Walks a function or class; raises `Refused` at the first node that is not allowed."""

    def __init__(self, tree: ast.stmt, scope: dict[str, str]) -> None:
        self.spaces = {**NAMESPACES, **scope}
        self.bound = set(bound_names(tree))
        self.module = tree.name if isinstance(tree, ast.ClassDef) else None
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        names = (n for part in body for n in assigned_names(part))
        self.functions = {name for name in names if not name.startswith("_")}
        self.aliases = set(module_aliases(tree, self.module))

    def statement(self, node: ast.AST) -> None:
        """Check a statement and all inside it."""
        match node:
            case ast.FunctionDef():
                self._function(node)
            case ast.ClassDef(bases=[], keywords=[], decorator_list=[decorator]):
                if node.name != self.module:
                    raise Refused(node, "a class in a function")
                self._decorator(decorator)
                for part in node.body:
                    if not isinstance(part, ast.FunctionDef | ast.Assign | ast.Expr):
                        raise Refused(part, f"{type(part).__name__} in a module")
                    self.statement(part)
            case ast.Expr(value=value):
                self.expression(value, StringContent.ARGUMENT)  # a docstring
            case ast.Assign(targets=[target], value=value):
                self._target(target)
                self.expression(value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._target(target)
                self.expression(annotation)
                if value is not None:
                    self.expression(value)
            case ast.For(target=target, iter=values, body=body, orelse=[]):
                self._target(target)
                self.expression(values)
                for part in body:
                    self.statement(part)
            case ast.AugAssign(target=target, op=op, value=value):
                self._target(target)
                self._operator(node, op)
                self.expression(value)
            case ast.withitem(context_expr=value, optional_vars=target):
                self.expression(value)
                if target is not None:
                    self._target(target)
            case ast.Assert(test=test, msg=msg):
                self.expression(test)
                if msg is not None:
                    self.expression(msg, StringContent.DATA)
            case ast.expr():
                self.expression(node)
            case _ if isinstance(node, PLAIN):
                for child in ast.iter_child_nodes(node):
                    self.statement(child)
            case _:
                raise Refused(node, _shown(node))

    def expression(self, node: ast.expr, text: StringContent = StringContent.NONE) -> None:
        """Check an expression; ``text`` says which strings it may be."""
        match node:
            case ast.Constant(value=str(value)):
                self._string(node, value, text)
            case ast.Constant(value=value):
                if not isinstance(value, bool | int | float | None):
                    raise Refused(node, f"'{ast.unparse(node)}'")
            case ast.Name(id=name):
                self._name(node, name)
            case ast.Attribute():
                self._attribute(node)
            case ast.Call():
                self._call(node, text)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                inner = (
                    text
                    if text in (StringContent.DATA, StringContent.SHAPE)
                    else StringContent.SHAPE
                )
                for part in parts:
                    self.expression(part, inner)
            case ast.Dict(keys=keys, values=values) if text in (
                StringContent.DATA,
                StringContent.ARGUMENT,
            ):
                for entry in (*keys, *values):
                    if entry is None:
                        raise Refused(node, "'**'")
                    self.expression(entry, StringContent.DATA)
            case ast.BinOp(left=left, op=op, right=right):
                self._operator(node, op)
                self.expression(left)
                self.expression(right)
            case ast.Subscript(value=value, slice=index):
                self._subscript(node, value, index)
            case ast.Lambda(args=args, body=body):
                self._arguments(args)
                self.expression(body)
            case _ if isinstance(node, PLAIN):
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)
            case _:
                raise Refused(node, _shown(node))

    def _function(self, node: ast.FunctionDef) -> None:
        """Check a function: its decorator, parameters and body."""
        if len(node.decorator_list) != 1:
            raise Refused(node, "a function without one decorator")
        self._decorator(node.decorator_list[0])
        self._arguments(node.args)
        for param in getattr(node, "type_params", []):
            if getattr(param, "bound", None) or getattr(param, "default_value", None):
                raise Refused(param, "a bound of a type parameter")
        if node.returns is not None:
            self.expression(node.returns)
        for part in node.body:
            self.statement(part)

    def _decorator(self, node: ast.expr) -> None:
        """Check that a decorator is one of `DECORATORS`, with flags only."""
        func, options = (node.func, node.keywords) if isinstance(node, ast.Call) else (node, [])
        root, *path = attribute_path(func)
        if f"{self.spaces.get(root)}.{'.'.join(path)}" not in DECORATORS:
            raise Refused(node, f"decorator '{ast.unparse(node)}'")
        arguments = [
            *(node.args if isinstance(node, ast.Call) else []),
            *(k.value for k in options),
        ]
        if not all(isinstance(v, ast.Constant) and isinstance(v.value, bool) for v in arguments):
            raise Refused(node, f"decorator '{ast.unparse(node)}'")

    def _arguments(self, args: ast.arguments) -> None:
        if args.defaults or args.kwonlyargs or args.posonlyargs or args.vararg or args.kwarg:
            raise Refused(args, f"parameters '{ast.unparse(args)}'")
        for arg in args.args:
            self._bind(arg, arg.arg)
            if arg.annotation is not None:
                self.expression(arg.annotation)

    def _target(self, node: ast.expr) -> None:
        """Check what is assigned to."""
        match node:
            case ast.Name(id=name):
                self._bind(node, name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._target(part)
            case ast.Starred(value=ast.Name(id=name)):
                self._bind(node, name)
            case ast.Subscript():
                self.expression(node)
            case _:
                raise Refused(node, f"an assignment to '{ast.unparse(node)}'")

    def _bind(self, node: ast.AST, name: str) -> None:
        """Check that a name may be bound: not one that has a meaning already."""
        if name.startswith("__") or name == self.module or name in self.spaces:
            raise Refused(node, f"the name '{name}' for a value")

    def _name(self, node: ast.expr, name: str) -> None:
        if name in self.spaces and name not in self.bound:
            raise Refused(node, f"'{name}' without an attribute")
        if name.startswith("__") or (hasattr(builtins, name) and name not in self.bound):
            raise Refused(node, f"'{name}'")

    def _attribute(self, node: ast.Attribute) -> None:
        """Check an attribute: of a namespace, of the module, or one of `FIELDS`."""
        root, *path = attribute_path(node)
        if root in self.spaces:
            if lookup(self.spaces[root], path) is None:
                raise Refused(node, f"'{root}.{'.'.join(path)}'")
        elif root == self.module or root in self.aliases:
            if path[0] not in self.functions or len(path) > 1:
                raise Refused(node, f"'{root}.{'.'.join(path)}'")
        elif node.attr not in FIELDS:
            raise Refused(node, f"'.{node.attr}'")
        elif isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript):
            self.expression(node.value)
        else:
            raise Refused(node, f"'.{node.attr}' of an expression")

    def _call(self, node: ast.Call, text: StringContent) -> None:
        """Check the function that is called, and its arguments."""
        root, *path = attribute_path(node.func)
        if isinstance(node.func, ast.Name) and (root not in self.bound or hasattr(builtins, root)):
            if root not in BUILTINS:
                raise Refused(node, f"'{root}'")
            text = StringContent.SHAPE  # `max` of strings would compute a string
        elif isinstance(node.func, ast.Name | ast.Attribute):
            self.expression(node.func)
        else:
            raise Refused(node, f"a call of '{_shown(node.func)}'")
        place = text if text is StringContent.SHAPE else StringContent.ARGUMENT
        shaped = path[-1:] and path[-1] in SHAPED
        if path[-1:] == ["Callable"] and len(node.args) > 3:
            raise Refused(node.args[3], "'derive_func'")  # by position
        for k, arg in enumerate(node.args):
            self.expression(arg, StringContent.SHAPE if shaped and k == 0 else place)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Refused(node, "'**'")
            if keyword.arg == "derive_func":
                raise Refused(keyword.value, "'derive_func'")
            evaluated = shaped and keyword.arg in ("shape", "values")
            self.expression(keyword.value, StringContent.SHAPE if evaluated else place)

    def _operator(self, node: ast.AST, op: ast.operator) -> None:
        if not isinstance(op, OPERATORS):
            raise Refused(node, _shown(node))

    def _subscript(self, node: ast.AST, value: ast.expr, index: ast.expr) -> None:
        """Check a subscript of a buffer, the metadata, a tuple or a call."""
        if not isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Tuple | ast.Call):
            raise Refused(node, _shown(node))
        self.expression(value)
        key = index.value if isinstance(index, ast.Constant) else None
        if not (isinstance(key, str) and _KEY.fullmatch(key)):
            self.expression(index)

    def _string(self, node: ast.AST, value: str, text: StringContent) -> None:
        if text in (StringContent.DATA, StringContent.ARGUMENT):
            return
        if text is StringContent.NONE or not value.isascii():
            raise Refused(node, f"the string {value[:40]!r} here")
        try:
            tree = dimension(value)
            self.expression(tree)
        except (SyntaxError, ValueError, Refused) as error:
            raise Refused(node, f"the string {value[:40]!r} in a shape") from error


def dimension(text: str) -> ast.expr:
    """Parse a string in a shape; raises ``SyntaxError`` or ``ValueError``."""
    return ast.parse(text, mode="eval").body


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return f"'{text}'" if len(text) < 60 and "\n" not in text else type(node).__name__
