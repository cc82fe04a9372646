"""Products: matrix products and convolutions, added up in float32 for half types.

TVM's importer writes float32 as the dtype of every result. The operands stay in their own dtype, so
that hardware with products of half types can be used; the sum is rounded once, as by torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from .nodes.arguments import Converter, arguments
from .nodes.constants import filled


def accumulated(value: Any) -> str:
    """Return the dtype in which products of a tensor's elements are added."""
    dtype = str(value.ty.dtype)
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _product(left: str, right: str) -> Converter:
    """Convert mm, bmm and matmul, whose operands have these names."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, y = args[left], args[right]
        return importer.block_builder.emit(relax.op.matmul(x, y, out_dtype=accumulated(x)))

    return convert


def _added(left: str, right: str) -> Converter:
    """Convert ``beta * self + alpha * (left @ right)``."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        emit, x = importer.block_builder.emit, args[left]
        alpha = 0 if importer._equal(x.ty.shape[-1], 0) else args["alpha"]  # a sum of nothing
        terms = [_times(emit, args["self"], args["beta"])] if args["beta"] != 0 else []
        if alpha != 0:
            product = emit(relax.op.matmul(x, args[right], out_dtype=accumulated(x)))
            terms.append(_times(emit, product, alpha))
        if not terms:
            return filled(importer, importer._sizes(node), 0, accumulated(x))
        if alpha == 0:
            return emit(relax.op.broadcast_to(terms[0], importer._sizes(node)))
        return terms[0] if len(terms) == 1 else emit(relax.op.add(*terms))

    return convert


def _times(emit: Any, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return emit(relax.op.multiply(value, relax.const(factor, value.ty.dtype)))


def _linear(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    weight = emit(relax.op.permute_dims(args["weight"]))
    product = emit(relax.op.matmul(x, weight, out_dtype=accumulated(x)))
    return product if args["bias"] is None else emit(relax.op.add(product, args["bias"]))


def _trilinear(importer: Any, node: Any) -> Any:
    """Convert _trilinear, the product of `nn.Bilinear`: a sum of products of three tensors."""
    args, emit = arguments(importer, node), importer.block_builder.emit
    factors = []
    for name in ("1", "2", "3"):
        factor = args[f"i{name}"]
        for axis in sorted(args[f"expand{name}"]):
            factor = emit(relax.op.expand_dims(factor, axis))
        factors.append(factor)
    first, second, third = factors
    product = emit(relax.op.multiply(emit(relax.op.multiply(first, second)), third))
    return emit(relax.op.sum(product, list(args["sumdim"])))


def _convolution(importer: Any, node: Any) -> Any:
    """Convert a convolution or a transposed one, over one, two or three spatial axes."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    count, transposed = x.ty.ndim - 2, args["transposed"]
    if not 1 <= count <= 3:
        raise NotImplementedError(f"it convolves {count} spatial axes, expected 1 to 3")
    axes = "DHW"[3 - count :]
    more: dict[str, Any] = (
        {"output_padding": _each(args, "output_padding", count)} if transposed else {}
    )
    op = getattr(relax.op.nn, f"conv{count}d_transpose" if transposed else f"conv{count}d")
    out = emit(op(
        x, args["weight"], strides=_each(args, "stride", count),
        padding=_each(args, "padding", count), dilation=_each(args, "dilation", count),
        groups=args["groups"], data_layout=f"NC{axes}",
        kernel_layout=f"IO{axes}" if transposed else f"OI{axes}", out_dtype=accumulated(x),
        **more))  # fmt: skip
    if args["bias"] is None:
        return out
    return emit(relax.op.add(out, emit(relax.op.reshape(args["bias"], [1, -1, *[1] * count]))))


def _each(args: Mapping[str, Any], name: str, count: int) -> list[int]:
    """Return an argument for each spatial axis; torch repeats a single one."""
    values = list(args[name])
    return values * count if len(values) == 1 else values


CONVERTERS: Mapping[str, Converter] = {
    "mm.default": _product("self", "mat2"), "bmm.default": _product("self", "mat2"),
    "matmul.default": _product("self", "other"),
    "addmm.default": _added("mat1", "mat2"), "addmv.default": _added("mat", "vec"),
    "baddbmm.default": _added("batch1", "batch2"), "linear.default": _linear,
    "convolution.default": _convolution, "_trilinear.default": _trilinear,
}  # fmt: skip
