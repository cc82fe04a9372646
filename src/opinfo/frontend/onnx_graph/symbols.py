"""The inputs of an ONNX model: names, types and symbolic sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from ..checks.input_shapes import KEPT, Shapes
from .attributes import dtype_name
from .scalars import SizeArithmetic
from .values import NotConvertible

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
    for value in model.graph.input:
        if value.name not in inputs:
            continue
        if not value.type.HasField("tensor_type"):
            kind = value.type.WhichOneof("value")
            raise NotConvertible(f"input '{value.name}' is a {kind}, expected a tensor")
        dims = _requested(value.name, inputs[value.name], shapes)
        dtype = dtype_name(value.type.tensor_type.elem_type)
        if dtype in ("object", "str"):
            raise NotConvertible(f"input '{value.name}' holds strings, expected numbers")
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
    scope: dict[str, Any] = {}
    for dim, given in sizes.items():
        (size, *others) = given
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


def _size(name: str, axis: int, dim: int | str, scope: dict[str, Any]) -> Any:
    if isinstance(dim, int):
        return dim
    if dim == KEPT:
        return scope.setdefault(f"{name}_{axis}", tirx.Var(f"{name}_{axis}", "int64"))
    return _Sum(dim, scope).value()


class _Sum:
    """Parse a size such as ``past + 1`` or ``2*n``; a name that is none of these is one symbol."""

    def __init__(self, text: str, scope: dict[str, Any]) -> None:
        self.text, self.scope = text, scope
        self.tokens = _TOKEN.findall(text)

    def value(self) -> Any:
        try:
            result = self._sum()
        except (IndexError, ValueError, TypeError):
            return self._symbol(self.text)
        if self.tokens:
            return self._symbol(self.text)
        return SizeArithmetic().simplify(result)

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
        return self.scope.setdefault(name, tirx.Var(name, "int64"))


def _plain(name: str, taken: set[str]) -> str:
    """Return the name of a parameter: a letter or underscore first, no dots, each once."""
    plain = name.replace(".", "_") or "empty_"
    if not (plain[0].isalpha() or plain[0] == "_"):
        plain = f"input_{plain}"
    unique, k = plain, 0
    while unique in taken:
        k += 1
        unique = f"{plain}_{k}"
    taken.add(unique)
    return unique
