"""The inputs of an ONNX model: names, types and symbolic sizes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from keyword import iskeyword
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from ..checks.error import FrontendError, shortened
from ..checks.input_shapes import KEPT, Shapes
from ..onnx_checks.onnx_schema import check_sizes
from .attributes import dtype_name
from .narrow_types import NARROW
from .scalars import is_expr
from .size_arithmetic import SizeArithmetic
from .values import NotConvertible

#: Limit on the characters of a size that is read as a sum or product.
LONGEST = 200
#: Characters of a dimension's name that its variable keeps.
SHOWN = 64
_TOKEN = re.compile(r"\s*(//|[-+*/()]|\d+|[^-+*/()\s]+)")


def input_shapes(model: Any) -> dict[str, tuple[int | str, ...] | None]:
    """Return the shapes of inputs that are not weights; an unnamed dimension is "?"."""
    weights = {tensor.name for tensor in model.graph.initializer}
    shapes: dict[str, tuple[int | str, ...] | None] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        dims = tuple(_dim(d) for d in tensor.shape.dim) if tensor.HasField("shape") else None
        shapes[value.name] = dims
    return shapes


def _dim(dim: Any) -> int | str:
    return int(dim.dim_value) if dim.dim_value > 0 else str(dim.dim_param or KEPT)


def parameters(model: Any, shapes: Shapes) -> dict[str, Any]:
    """Return a Relax variable for each input by its name in the file.

    Dimensions of one name are one variable; unnamed ones get names of their own. Requested
    `shapes` replace those in the file, except where they are `KEPT`; a size that is requested for a
    named dimension holds for the other inputs that name it.
    """
    taken: set[str] = set()
    variables: dict[str, Any] = {}
    inputs = input_shapes(model)
    scope = _bound(inputs, shapes)
    for dim in [d for dims in inputs.values() for d in dims or () if isinstance(d, str)]:
        if dim.isidentifier() and not iskeyword(dim):  # unnamed dimensions take other names
            _variable(scope, dim, dim)
    for value in model.graph.input:
        if value.name not in inputs:
            continue
        if not value.type.HasField("tensor_type"):
            kind = (value.type.WhichOneof("value") or "value without a type").removesuffix("_type")
            name = shortened(value.name, 80)
            raise NotConvertible(
                f"input '{name}' is of type {kind}, expected a tensor: give each of its tensors an "
                "input of its own"
            )
        dims = _requested(value.name, inputs[value.name], shapes)
        try:
            dtype = dtype_name(value.type.tensor_type.elem_type)
        except NotConvertible as error:
            raise NotConvertible(f"input '{shortened(value.name, 80)}': {error}") from error
        if dtype in ("object", "str"):
            name = shortened(value.name, 80)
            raise NotConvertible(f"input '{name}' holds strings, expected numbers")
        if dtype in NARROW:
            name = shortened(value.name, 80)
            raise NotConvertible(f"input '{name}' is {dtype}, expected a type of at least 8 bits")
        try:
            check_sizes(dims, np.dtype(dtype).itemsize)
        except FrontendError as error:
            raise NotConvertible(f"input '{shortened(value.name, 80)}': {error}") from error
        sizes = [_size(value.name, k, dim, scope) for k, dim in enumerate(dims)]
        variables[value.name] = relax.Var(_plain(value.name, taken), relax.TensorType(sizes, dtype))
    return variables


def _bound(inputs: Mapping[str, tuple[int | str, ...] | None], shapes: Shapes) -> dict[str, Any]:
    """Return the sizes of named dimensions that were requested, each once or always the same."""
    sizes: dict[str, set[int | str]] = {}
    for name, shape in shapes.items():
        for dim, size in zip(inputs.get(name) or (), shape, strict=False):
            if isinstance(dim, str) and dim != KEPT and size not in (KEPT, None):
                sizes.setdefault(dim, set()).add(size)
    scope: dict[Any, Any] = {}
    for dim, alternatives in sizes.items():
        (size, *others) = alternatives
        if not others and size != dim:
            scope[dim] = (
                tirx.IntImm("int64", size) if isinstance(size, int)
                else scope.setdefault(size, tirx.Var(size, "int64"))
            )  # fmt: skip
    return scope


def _requested(
    name: str, dims: tuple[int | str, ...] | None, shapes: Shapes
) -> tuple[int | str, ...]:
    requested = shapes.get(name)
    if dims is None and (requested is None or KEPT in requested):
        raise NotConvertible(
            f"input '{name}' has no shape: give it one, --shape {name}:1,3,224,224"
        )
    if requested is None or dims is None:
        return dims if requested is None else requested  # type: ignore[return-value]
    return tuple(d if r in (KEPT, None) else r for d, r in zip(dims, requested, strict=True))


def _size(name: str, axis: int, dim: int | str, scope: dict[Any, Any]) -> Any:
    if isinstance(dim, int):
        return dim
    if dim == KEPT:
        return _variable(scope, (name, axis), f"{name}_{axis}")
    return _Sum(dim, scope).value()


def _variable(scope: dict[Any, Any], key: Any, text: str) -> Any:
    """Return the variable of a dimension; its name is an identifier that no other one has."""
    if key not in scope:
        taken = {var.name for var in scope.values() if isinstance(var, tvm.ir.Var)}
        taken |= {other for other in scope if isinstance(other, str)} - {key}
        scope[key] = tirx.Var(_unique(_identifier(text), taken), "int64")
    return scope[key]


def _identifier(text: str) -> str:
    """Return a name for a text that a file chooses: reports, scripts and C++ may print it."""
    word = re.sub(r"\W", "_", text[:SHOWN], flags=re.ASCII) or "_"
    word = word if word[0].isalpha() or word[0] == "_" else f"_{word}"
    return f"{word}_" if iskeyword(word) else word


class _Sum:
    """Parse a size such as ``past + 1`` or ``2*n``; a name that is none of these is one symbol."""

    def __init__(self, text: str, scope: dict[Any, Any]) -> None:
        self.text, self.scope = text, scope
        self.tokens = _TOKEN.findall(text)

    def value(self) -> Any:
        before = set(self.scope)
        requested = any(isinstance(self.scope.get(t), tirx.IntImm) for t in self.tokens)
        result = None
        with suppress(IndexError, ValueError, TypeError, ArithmeticError, RuntimeError):
            if len(self.text) <= LONGEST:
                result = SizeArithmetic().simplify(self._sum())
        if requested and isinstance(result, int) and not self.tokens:
            if result < 0:
                raise NotConvertible(f"the dimension '{shortened(self.text, 80)}' is {result}")
            return result
        if self.tokens or not is_expr(result):  # a number has a field of its own in the file
            for name in set(self.scope) - before:
                del self.scope[name]
            return self._symbol(self.text)
        return result

    def _sum(self) -> Any:
        result = self._product()
        while self.tokens and self.tokens[0] in "+-":
            sign, other = self.tokens.pop(0), self._product()
            result = result + other if sign == "+" else result - other
        return result

    def _product(self) -> Any:
        result = self._atom()
        while self.tokens and self.tokens[0] in ("*", "/", "//"):
            sign, other = self.tokens.pop(0), self._atom()
            result = result * other if sign == "*" else tvm.tirx.floordiv(result, other)
        return result

    def _atom(self) -> Any:
        token = self.tokens.pop(0)
        if token == "(":
            result = self._sum()
            if self.tokens.pop(0) != ")":
                raise ValueError(self.text)
            return result
        if token.isdigit():
            return tirx.IntImm("int64", int(token))
        if not (token[0].isalpha() or token[0] == "_"):
            raise ValueError(self.text)
        return self._symbol(token)

    def _symbol(self, name: str) -> Any:
        return _variable(self.scope, name, name)


def _plain(name: str, taken: set[str]) -> str:
    """Return the name of a parameter: a letter or underscore first, no dots, each once."""
    plain = name.replace(".", "_") or "empty_"
    if not (plain[0].isalpha() or plain[0] == "_"):
        plain = f"input_{plain}"
    unique = _unique(plain, taken)
    taken.add(unique)
    return unique


def _unique(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: the name itself, or with a number."""
    unique, k = name, 0
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique
