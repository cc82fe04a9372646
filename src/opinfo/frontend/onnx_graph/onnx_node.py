"""A node during its import: its attributes, and its inputs as values, tensors and sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
from tvm import relax, tirx

from ..checks.data_sizes import data_sizes
from ..checks.size_check import size_check
from .data_sources import not_constant
from .scalars import Rational, is_expr, is_var, mentions, same, size
from .size_arithmetic import SizeArithmetic
from .values import Dim, NotConvertible, TensorValue, kind, of_expr


class ImportContext(Protocol):
    """What converters need of the import that is under way."""

    builder: Any
    arithmetic: SizeArithmetic
    warnings: list[str]

    def tensor(self, value: TensorValue) -> Any:
        """Return a Relax expression for a value."""

    def run(self, graph: Any, inputs: Sequence[Any], scope: Mapping[str, Any]) -> list[Any]:
        """Import a graph inside the current one and return the values of its outputs."""

    def branches(
        self, condition: Any, graphs: Sequence[Any], scope: Mapping[str, Any]
    ) -> list[Any]:
        """Import two graphs as the branches of a conditional and return its values."""

    def recursion(self, node: OnnxNode) -> list[Any]:
        """Import a Loop as a recursive function and return its values."""


@dataclass
class OnnxNode:
    """One node; converters read it and return expressions or values, one for each output."""

    op: str
    domain: str
    opset: int
    attrs: Mapping[str, Any]
    inputs: Sequence[Any]
    outputs: Sequence[str]
    graph: ImportContext
    scope: Mapping[str, Any]

    @property
    def builder(self) -> Any:
        """The block builder."""
        return self.graph.builder

    @property
    def arithmetic(self) -> SizeArithmetic:
        """The arithmetic on sizes."""
        return self.graph.arithmetic

    def refuse(self, text: str, *dims: Dim) -> NoReturn:
        """Refuse the node; `dims` are the sizes that would have to be static."""
        raise NotConvertible(text, dims)

    def note(self, text: str) -> None:
        """Tell the user of the module what the file leaves open, in one line."""
        self.graph.warnings.append(f"the node of '{self.outputs[0]}' ({self.op}): {text}")

    def refuse_data(self, what: str, value: TensorValue, expected: str) -> NoReturn:
        """Refuse a value that is computed at run time; says from which inputs, and a mend."""
        raise not_constant(what, value, expected, self.builder, self.scope)

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attrs.get(name, default)

    def text(self, name: str, default: str) -> str:
        """Return an attribute of type string."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)

    def has(self, k: int) -> bool:
        """Return whether input `k` is present."""
        return k < len(self.inputs) and self.inputs[k] is not None

    def wants(self, k: int) -> bool:
        """Return whether output `k` is named, that is read."""
        return k < len(self.outputs) and bool(self.outputs[k])

    def value(self, k: int) -> TensorValue:
        """Return input `k`, which must be a tensor."""
        if not self.has(k):
            self.refuse(f"input {k} is missing")
        value = self.inputs[k]
        if not isinstance(value, TensorValue):
            self.refuse(f"input {k} is {kind(value)}, expected a tensor")
        return value

    def tensor(self, k: int) -> Any:
        """Return input `k` as a Relax variable or constant."""
        return self.graph.tensor(self.value(k))

    def shape(self, k: int) -> list[Dim]:
        """Return the sizes of input `k`."""
        value = self.value(k)
        return list(value.elements.shape) if value.elements is not None else dims_of(value.expr)

    def rank(self, k: int) -> int:
        """Return the number of dimensions of input `k`."""
        return len(self.shape(k))

    def dtype(self, k: int) -> str:
        """Return the dtype of input `k`."""
        return self.value(k).dtype

    def array(self, k: int, what: str) -> np.ndarray[Any, Any]:
        """Return the numbers of input `k`; refuses others, as they are only known at run time."""
        value = self.value(k)
        if value.elements is None:
            self.refuse_data(what, value, "a constant")
        if not value.is_constant:
            self.refuse(f"{what} depends on symbolic dimensions", *value.elements.reshape(-1))
        return value.elements

    def integers(self, k: int, what: str) -> list[Dim]:
        """Return the elements of input `k` as numbers or expressions over symbolic dimensions."""
        value = self.value(k)
        if value.elements is None:
            self.refuse_data(what, value, "a constant or a function of sizes")
        items = value.elements.reshape(-1).tolist()
        whole = [x.top if isinstance(x, Rational) and x.bottom == 1 else x for x in items]
        return [x if is_expr(x) else int(x) for x in whole]

    def sizes(self, k: int, what: str) -> list[Dim]:
        """Return the elements of input `k` as sizes; those that are data become symbols.

        A call fails where one of those is negative.
        """
        value = self.value(k)
        if value.elements is not None:
            return self.integers(k, what)
        extent = self.shape(k)[0] if self.rank(k) else 1
        if is_expr(extent) or value.dtype not in ("int32", "int64"):
            self.refuse_data(what, value, "a constant or a function of sizes")
        if extent == 0:
            return []
        numbers = self.emit(relax.op.astype(self.tensor(k), "int64"))
        vector = self.emit(relax.op.reshape(numbers, [extent]))
        return data_sizes(self.builder, vector, self.op.lower())

    def axis(self, default: int, rank: int, name: str = "axis") -> int:
        """Return an axis that counts from the front."""
        axis = int(self.attr(name, default))
        if not -rank <= axis < rank:
            self.refuse(f"{name} is {axis}, expected -{rank} to {rank - 1}")
        return axis % rank

    def emit(self, expr: Any) -> Any:
        """Bind an expression to a variable."""
        return self.builder.emit(expr)

    def simplify(self, dim: Dim) -> Dim:
        """Return the simplest form of a size."""
        return self.arithmetic.simplify(dim)

    def require(self, condition: Any) -> None:
        """Check a condition on sizes when the model is called, unless it holds for all.

        Raises:
            NotConvertible: It holds for no sizes.
        """
        condition = self.simplify(condition)
        if not is_expr(condition):
            if not condition:
                self.refuse("its sizes contradict each other")
        elif not self.arithmetic.proves(condition):
            self.builder.match_cast(*size_check(condition))

    def check_shape(self, k: int, expected: Sequence[Dim]) -> None:
        """Refuse input `k` if it is present with another rank, or with another static size."""
        if not self.has(k):
            return
        got = self.shape(k)
        wrong = any(isinstance(a, int) and isinstance(b, int) and a != b
                    for a, b in zip(got, expected, strict=False))  # fmt: skip
        if len(got) != len(expected) or wrong:
            self.refuse(f"input {k} has the shape {_shape(got)}, expected {_shape(expected)}")

    def cast_shape(self, expr: Any, dims: Sequence[Dim]) -> Any:
        """Return a tensor with the given sizes, which are checked at run time if not provable."""
        known, dims = dims_of(expr), [self.simplify(d) for d in dims]
        if len(known) != len(dims):
            self.refuse(f"expected {len(dims)} dimensions, got {len(known)}")
        for a, b in zip(known, dims, strict=True):
            if isinstance(a, int) and isinstance(b, int) and a != b:
                self.refuse(f"expected a size of {b}, got {a}")
        if all(same(a, b) for a, b in zip(known, dims, strict=True)):
            return expr
        symbolic = any(is_expr(b) and not same(a, b) for a, b in zip(known, dims, strict=True))
        for a, b in zip(known, dims, strict=True):
            if is_var(a) and not mentions(b, a):
                self.arithmetic.learn(a, b)
        if symbolic:
            return self._guarded(expr, known, dims)
        return self.builder.match_cast(expr, relax.TensorType(dims, expr.ty.dtype))

    def _guarded(self, expr: Any, known: Sequence[Dim], dims: Sequence[Dim]) -> Any:
        """Check sizes such as ``min(n, 512) == n`` and reshape.

        TVM's CanonicalizeBindings takes a symbol in a cast for one that the cast defines. So a cast
        of `m` to `n` replaces `n` by `m` in some places only, after which types have no shapes, one
        of a number to `n` is dropped, and one of an expression over `n` to `n` makes it recurse for
        ever.
        """
        failing = tirx.IntImm("int64", -1)
        pairs = [[d if is_expr(d) else tirx.IntImm("int64", d) for d in pair]
                 for pair in zip(known, dims, strict=True)]  # fmt: skip
        checks = [a if same(a, b) else tirx.Select(tirx.EQ(a, b), a, failing) for a, b in pairs]
        checked = self.builder.match_cast(expr, relax.TensorType(checks, expr.ty.dtype))
        return self.reshape(checked, dims)

    def reshape(self, data: Any, dims: Sequence[Dim]) -> Any:
        """Return a tensor of other sizes; Relax's `reshape` takes a 0 for a size that is kept."""
        if not any(isinstance(d, int) and d == 0 for d in dims):
            return self.emit(relax.op.reshape(data, list(dims)))
        count = functools.reduce(self.arithmetic.multiply, dims_of(data), 1)
        self.require(self.arithmetic.equation(count, 0))
        return self.emit(relax.op.zeros(list(dims), data.ty.dtype))

    def shape_tensor(self, dims: Sequence[Dim], dtype: str = "int64") -> Any:
        """Return a 1-d tensor of sizes."""
        shape = self.emit(relax.op.shape_to_tensor(relax.ShapeExpr(list(dims))))
        return shape if dtype == "int64" else self.emit(relax.op.astype(shape, dtype))

    def result(self, expr: Any) -> TensorValue:
        """Return the value of an expression, bound to a variable."""
        return of_expr(self.emit(expr))


def _shape(dims: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, dims))})"


def dims_of(expr: Any) -> list[Dim]:
    """Return the sizes of an expression; raises `NotConvertible` if they have no expressions."""
    shape = expr.ty.shape
    if not isinstance(shape, relax.ShapeExpr):
        raise NotConvertible("the sizes of an input are only known at run time")
    return [size(d) for d in shape.values]
