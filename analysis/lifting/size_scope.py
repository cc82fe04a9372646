"""Sizes and scalars of a symbolically executed PrimFunc: what its integers stand for.

A variable is a size if it is an extent of a buffer, alone or in a sum, or if a kernel is launched
over it; any other integer parameter is a scalar. Other numbers are tensors without dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from ..terms.term import INT_DTYPES, Int, TensorVar, Term, Var, as_int, integer, load, variable
from ..terms.traversal import free
from .effects.effects import Effects
from .effects.tensor_expression import WrittenSum
from .linear_extents import linear_form
from .positive_extents import positive_with
from .scalar_scope import ScalarScope
from .tir.from_tir import ExpressionReader
from .tir.node import NodeDict, items, lanes_of
from .tir.unliftable import Unliftable


class SizeScope:
    """The values of variables; a subclass that knows buffers reads them."""

    def __init__(self) -> None:
        self.frames: list[Effects] = []
        self.env = ScalarScope(self.frames)
        self.reader = ExpressionReader(self.env, self.read)
        self.determined = NodeDict[Var]()  # scalars that are bound by an extent
        self.sums: dict[Var, Any] = {}  # the extents that are sums, as they are written

    def read(self, buffer: Any, index: tuple[Int, ...]) -> Term:
        """Return the present element of a buffer."""
        raise Unliftable("a size depends on data", buffer.name)

    def bind_sizes(
        self, params: Sequence[Any], tensors_of_params: Sequence[TensorVar | Var | None]
    ) -> None:
        """Bind the variables that are an extent on their own or in a sum, or a scalar parameter.

        A scalar integer may be an index or an extent, so it is a variable. Any other scalar is an
        element of a tensor without dimensions, as which an operator would take it.
        """
        compound = list[tuple[Any, Int | None]]()
        scalars = list[tuple[Any, TensorVar | Var | None]]()
        for param, existing in zip(params, tensors_of_params, strict=True):
            if not is_buffer_var(param):
                if type(param.ty).__name__ != "PrimType":
                    raise Unliftable("a parameter is neither a buffer nor a scalar", param.name)
                scalars.append((param, existing))
                continue
            for d, expr in enumerate(items(param.ty.shape)):
                kind = type(expr).__name__
                if kind == "IntImm":
                    continue
                same = isinstance(existing, TensorVar) and d < len(existing.shape)
                extent = existing.shape[d] if same else None  # type: ignore[union-attr]
                if kind == "Var":
                    self.bind_size(expr, extent)
                else:
                    compound.append((expr, extent))
        for param, existing in scalars:  # who passes a size knows that the scalar is positive
            if isinstance(existing, Var) and existing.kind == "size":
                self.bind_size(param, as_int(existing))
        if compound and scalars:
            integers = [p for p, _ in scalars if str(p.ty.dtype) in INT_DTYPES]
            self.bind_sums(integers, compound)
        positions = [k for k, p in enumerate(params) if not is_buffer_var(p)]
        for position, (param, existing) in zip(positions, scalars, strict=True):
            if param in self.determined:
                continue
            dtype = str(param.ty.dtype)
            if isinstance(existing, Var):
                self.bind_size(param, as_int(existing))
            elif dtype in INT_DTYPES:
                shapes = [e for b in params if is_buffer_var(b) for e in items(b.ty.shape)]
                positive = any(positive_with(e, param) for e in shapes)
                kind = "size" if positive or self.is_launched_over(param) else "scalar"
                self.bind_size(param, as_int(self.unique(kind, param.name, dtype)))
            else:
                self.bind_value(param, position, existing)

    def is_launched_over(self, param: Any) -> bool:
        """Return whether a kernel has no block unless a scalar is positive."""
        return False

    def bind_sums(self, scalars: Sequence[Any], extents: Sequence[tuple[Any, Int | None]]) -> None:
        """Bind scalars that are a term of an extent, by taking the extent for a size.

        With the extent ``past + 1`` as the size ``s``, ``past`` is ``s - 1``. So the extent is at
        least 1 like any other, and its normal form is one variable.
        """
        forms = [(x, form, e) for x, e in extents if (form := linear_form(x)) is not None]
        for _ in forms:  # a later sum may determine a term of an earlier one
            for expr, form, extent in forms:
                open_terms = [(v, k) for v, k in form.coefficients.items() if v not in self.env]
                if len(open_terms) != 1 or open_terms[0][1] not in (1, -1):
                    continue
                (var, sign), known = open_terms[0], integer(form.literal)
                if not any(var.same_as(p) for p in scalars):
                    continue
                for term, factor in form.coefficients.items():
                    if not term.same_as(var):
                        known += self.reader.index(term) * factor
                size = as_int(self.unique("size", var.name)) if extent is None else extent
                self.env[var] = (size - known) * sign
                self.determined[var] = self.unique("scalar", var.name)
                if isinstance(size.atom, Var):
                    self.sums[size.atom] = expr

    def written_sums(self) -> dict[Var, WrittenSum]:
        """Return how the sizes that are sums are written, over the other sizes and scalars."""
        if not self.sums:
            return {}
        atoms = [(v, p.atom) for v, p in self.env.items() if isinstance(p, Int)]
        places = [*self.determined.items(), *((v, a) for v, a in atoms if isinstance(a, Var))]
        known = {a for _, a in places} - self.sums.keys()
        return {
            size: WrittenSum(expr, tuple((v, a) for v, a in places if a in known))
            for size, expr in self.sums.items()
        }

    def bind_size(self, var: Any, size: Int | None) -> None:
        if var not in self.env:
            self.env[var] = as_int(self.unique("size", var.name)) if size is None else size

    def bind_value(self, param: Any, position: int, existing: TensorVar | None) -> None:
        """Bind a scalar that is not an integer."""
        dtype = str(param.ty.dtype)
        if dtype == "handle" or lanes_of(dtype) != 1:
            raise Unliftable("a scalar parameter is not a number", param.name)
        if existing is not None and (existing.shape or existing.dtype != dtype):
            raise Unliftable("a scalar parameter differs from the expected one", param.name)
        tensor = existing or TensorVar(param.name, (), dtype, position, scalar=True)
        self.env[param] = load(tensor, ())

    def unique(self, kind: str, name: str, dtype: str = "int") -> Var:
        """Return a new variable; TIR variables that share a name get different ones."""
        names = {t.name for p in self.env.values() for t in free(p)}
        while name in names:
            name += "_"
        return variable(kind, name, dtype=dtype)
