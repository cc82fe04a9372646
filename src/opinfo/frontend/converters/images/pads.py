"""Padding by a number, or by other elements of the tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx

from ..nodes.arguments import Converter, arguments


def _padded(mode: str) -> Converter:
    """Convert reflection and replication padding."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x = args["self"]
        before, after = _widths(args["padding"], x.ty.ndim)
        if not all(isinstance(width, int) for width in (*before, *after)):
            raise NotImplementedError(
                f"it pads by {node.args[1]} elements of the tensor, expected static numbers; make "
                'the sizes static, or use mode="constant"'
            )
        flat = [width for pair in zip(before, after, strict=True) for width in pair]
        return importer.block_builder.emit(relax.op.nn.pad(x, flat, mode))

    return convert


def _constant(importer: Any, node: Any) -> Any:
    """Convert constant_pad_nd; Relax's `pad` takes no symbolic widths."""
    args = arguments(importer, node)
    x = args["self"]
    before, after = _widths(args["pad"], x.ty.ndim)
    value = _number(args["value"], str(x.ty.dtype))
    if all(isinstance(width, int) for width in (*before, *after)):
        flat = [width for pair in zip(before, after, strict=True) for width in pair]
        return importer.block_builder.emit(relax.op.nn.pad(x, flat, "constant", value))
    untouched = [isinstance(a, int) and isinstance(b, int) and a == b == 0
                 for a, b in zip(before, after, strict=True)]  # fmt: skip
    return importer.block_builder.emit_te(
        lambda data, first, sizes: _surrounded(data, first, sizes, untouched, value),
        x, list(map(_expr, before)), list(map(_expr, importer._sizes(node))),
        primfunc_name_hint="pad")  # fmt: skip


def _expr(size: Any) -> Any:
    """Return a size as an argument of a PrimFunc, where its symbols become parameters."""
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


def _number(value: Any, dtype: str) -> Any:
    """Return a number as an element of a dtype; torch takes any number but 0 for true."""
    if dtype == "bool":
        return bool(value)
    return int(value) if "int" in dtype else value


def _surrounded(
    data: Any, before: Sequence[Any], shape: Sequence[Any], untouched: Sequence[bool], value: Any
) -> Any:
    """Return a tensor of a shape: the data behind `before` places, and a number around it."""

    def element(*places: Any) -> Any:
        at = [place - width for place, width in zip(places, before, strict=True)]
        moved = [k for k, same in enumerate(untouched) if not same]
        inside = tirx.all(*(at[k] >= 0 for k in moved), *(at[k] < data.shape[k] for k in moved))
        return tirx.if_then_else(inside, data(*at), tirx.const(value, data.dtype))

    return te.compute(shape, element, name="pad")


def _widths(given: Sequence[Any], rank: int) -> tuple[list[Any], list[Any]]:
    """Return the widths before and after each axis; torch gives those of the last axes first."""
    rest = [0] * (rank - len(given) // 2)
    return [*rest, *reversed(given[::2])], [*rest, *reversed(given[1::2])]


#: Padding by elements, which torch decomposes into lookups.
WHOLE: Mapping[str, Converter] = {
    **{f"reflection_pad{rank}d.default": _padded("reflect") for rank in (1, 2, 3)},
    **{f"replication_pad{rank}d.default": _padded("replicate") for rank in (1, 2, 3)},
}
CONVERTERS: Mapping[str, Converter] = {"constant_pad_nd.default": _constant}
