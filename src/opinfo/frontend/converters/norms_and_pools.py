"""Normalisation and pooling that TVM's importer lacks, or reads without all arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax

from .arguments import Converter, arguments


def _group_norm(importer: Any, node: Any) -> Any:
    """Convert native_group_norm, whose scale and offset may be absent; only output 0."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    _check_dtype(x)
    size = relax.ShapeExpr([x.ty.shape[1]])
    absent = ((args["weight"], 1), (args["bias"], 0))
    scale, offset = (
        emit(relax.op.full(size, relax.const(value, x.ty.dtype), str(x.ty.dtype)))
        if given is None else given
        for given, value in absent
    )  # fmt: skip
    return emit(relax.op.nn.group_norm(
        x, scale, offset, num_groups=args["group"], channel_axis=1,
        axes=list(range(2, x.ty.ndim)), epsilon=args["eps"]))  # fmt: skip


def _layer_norm(importer: Any, node: Any) -> Any:
    """Convert native_layer_norm; only output 0."""
    _check_dtype(importer.env[node.args[0]])
    return importer._native_layer_norm(node)


def _check_dtype(x: Any) -> None:
    if str(x.ty.dtype) == "float64":
        raise NotImplementedError("TVM normalises float32 and float16, got float64; export "
                                  "model.float()")  # fmt: skip


def _max_pool(importer: Any, node: Any) -> Any:
    """Convert max_pool2d_with_indices; only output 0, the maxima."""
    args = arguments(importer, node)
    kernel = _pair(args["kernel_size"])
    return importer.block_builder.emit(relax.op.nn.max_pool2d(
        args["self"], pool_size=kernel, strides=_pair(args["stride"]) or kernel,
        padding=_pair(args["padding"]), dilation=_pair(args["dilation"]),
        ceil_mode=args["ceil_mode"], layout="NCHW"))  # fmt: skip


def _average_pool(importer: Any, node: Any) -> Any:
    """Convert avg_pool2d; a divisor of its own replaces the size of the window."""
    args = arguments(importer, node)
    kernel = _pair(args["kernel_size"])
    divisor = args["divisor_override"]
    emit = importer.block_builder.emit
    out = emit(relax.op.nn.avg_pool2d(
        args["self"], pool_size=kernel, strides=_pair(args["stride"]) or kernel,
        padding=_pair(args["padding"]), ceil_mode=args["ceil_mode"], layout="NCHW",
        count_include_pad=args["count_include_pad"] or divisor is not None))  # fmt: skip
    if divisor is None:
        return out
    if args["ceil_mode"]:
        raise NotImplementedError("it has a divisor of its own and rounds sizes up; pass "
                                  "ceil_mode=False")  # fmt: skip
    return emit(relax.op.multiply(out, relax.const(kernel[0] * kernel[1] / divisor, out.ty.dtype)))


def _pair(values: Any) -> list[int]:
    sizes = [int(value) for value in values]
    return sizes * 2 if len(sizes) == 1 else sizes


def _adaptive_max_pool(importer: Any, node: Any) -> Any:
    """Convert adaptive_max_pool2d to windows of one size; only output 0."""
    args = arguments(importer, node)
    before, after = node.args[0].meta["val"].shape[-2:], args["output_size"]
    if list(after) == [1, 1]:
        return importer.block_builder.emit(relax.op.max(args["self"], [-2, -1], keepdims=True))
    if not all(isinstance(b, int) and b % a == 0 for b, a in zip(before, after, strict=True)):
        raise NotImplementedError(f"its sizes {tuple(before)} are not multiples of {tuple(after)}; "
                                  "use max_pool2d")  # fmt: skip
    window = [b // a for b, a in zip(before, after, strict=True)]
    return importer.block_builder.emit(
        relax.op.nn.max_pool2d(args["self"], pool_size=window, strides=window, layout="NCHW")
    )


CONVERTERS: Mapping[str, Converter] = {
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
    "max_pool2d_with_indices.default": _max_pool,
    "avg_pool2d.default": _average_pool,
    "adaptive_max_pool2d.default": _adaptive_max_pool,
}
