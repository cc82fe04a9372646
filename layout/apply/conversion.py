"""Relax expressions that convert a value between layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from ..model.layout import Layout

#: The dtypes that ``layout_transform`` supports: for others, its lowering writes a padding of
#: float32, even if nothing is padded.
PADS = frozenset(("float16", "bfloat16", "float32", "float64", "uint8",
                  *(f"int{n}" for n in (8, 16, 32, 64))))  # fmt: skip

Add = Callable[[Any, str], Any]
"""Adds a PrimFunc under a name to the module that is built."""


@dataclass(frozen=True)
class LayoutConversion:
    """A conversion of a value of logical ``shape`` from ``source`` to ``target``."""

    shape: tuple[Any, ...]
    dtype: str
    source: Layout
    target: Layout

    @property
    def free(self) -> bool:
        """Whether a conversion leaves memory unchanged."""
        return self.source.order(self.shape) == self.target.order(self.shape)


def converted(expr: Any, step: LayoutConversion, add: Add) -> Any:
    """The conversion as ``layout_transform`` or ``permute_dims``, else as a PrimFunc."""
    shape, source, target = step.shape, step.source, step.target
    if source.dims == target.dims:
        return expr
    physical = target.physical(shape)
    if step.free and _same_padding(step):
        return expr if physical == source.physical(shape) else relax.op.reshape(expr, physical)
    order = _permutation(source, target)
    if order is not None:
        return relax.op.permute_dims(expr, list(order))
    plain = source.is_identity and all(len(d) == 1 for d in target.dims)
    if plain and step.dtype in PADS:
        pad = target.pad_value if target.padded(shape) else None
        return relax.op.layout_transform(
            expr, index_map=target.index_map(shape), pad_value=pad,
        )  # fmt: skip
    gvar = add(copy(step), "layout_copy")
    sizes = [relax.prim_value(e) for e in shape if not isinstance(e, int)]
    ty = relax.TensorType(physical, step.dtype, getattr(expr.ty, "vdevice", None))
    return relax.call_tir(gvar, [expr, *sizes], out_ty=ty)


def _same_padding(step: LayoutConversion) -> bool:
    """Whether the padding stays right if the elements stay in place."""
    if not step.source.padded(step.shape):
        return not step.target.padded(step.shape)
    return step.target.pad_value in (None, step.source.pad_value)


def _permutation(source: Layout, target: Layout) -> tuple[int, ...] | None:
    if sorted(source.dims, key=repr) != sorted(target.dims, key=repr):
        return None
    return tuple(source.dims.index(d) for d in target.dims)


def copy(step: LayoutConversion) -> Any:
    """The PrimFunc ``target[p] = source[q]`` for each logical element; padding is ``pad_value``.

    Symbolic extents are parameters after the source. Indices are int64, as LegalizeOps writes them:
    TVM does not fuse PrimFuncs whose index types differ.
    """
    source, target = step.source, step.target
    shape = tuple(e if isinstance(e, int) else tirx.Var(f"n{k}", "int64")
                  for k, e in enumerate(step.shape))  # fmt: skip
    sizes = [e for e in shape if not isinstance(e, int)]
    placeholder = te.placeholder(_wide(source.physical(shape)), step.dtype, "source")

    def element(*index: Any) -> Any:
        logical = target.backward(index, shape)
        value = placeholder(*source.forward(logical, shape))
        if not target.padded(shape):
            return value
        inside = tirx.all(*(i < e for i, e in zip(logical, shape, strict=True)))
        return tirx.if_then_else(inside, value, tirx.const(target.pad_value or 0, step.dtype))

    out = te.compute(_wide(target.physical(shape)), element, "target")
    func = te.create_prim_func([placeholder, *sizes, out])
    return func.without_attr("global_symbol").with_attr("tirx.noalias", True)


def _wide(shape: Sequence[Any]) -> list[Any]:
    return [tirx.IntImm("int64", e) if isinstance(e, int) else e for e in shape]


def layouts_of(layouts: Sequence[Layout | None]) -> tuple[Layout | None, ...]:
    """The layouts, with None for identities, so that equal rewrites have equal keys."""
    return tuple(None if x is None or x.is_identity else x for x in layouts)
