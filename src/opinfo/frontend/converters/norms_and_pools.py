"""Normalisation and pooling that TVM's importer lacks, or reads without all arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from ..formulas.float_extrema import extremum_of_floats
from .nodes.arguments import Converter, arguments
from .pool_positions import is_read, largest


def _group_norm(importer: Any, node: Any) -> Any:
    """Convert native_group_norm, whose scale and offset may be absent; only output 0."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    _check_dtype(x)
    scale, offset = _by_channel(emit, args)
    return emit(relax.op.nn.group_norm(
        x, scale, offset, num_groups=args["group"], channel_axis=1,
        axes=list(range(2, x.ty.ndim)), epsilon=args["eps"]))  # fmt: skip


def _statistics_norm(importer: Any, node: Any) -> Any:
    """Convert a batch norm by the statistics of its input; only output 0.

    An instance norm is one of a batch of 1 with all instances as channels, whose number may be
    symbolic.
    """
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    _check_dtype(x)
    if is_read(node, 1) or is_read(node, 2):
        raise NotImplementedError("the mean or the deviation of a batch norm is read; return the "
                                  "normalised tensor only")  # fmt: skip
    scale, offset = _by_channel(emit, args)
    axes = [0, *range(2, x.ty.ndim)]
    out = relax.op.nn.instance_norm(x, scale, offset, channel_axis=1, axes=axes,
                                    epsilon=args["eps"])  # fmt: skip
    return [emit(out), None, None]


def _by_channel(emit: Any, args: Mapping[str, Any]) -> list[Any]:
    """Return the scale and the offset of each channel, which may be absent."""
    return _scale_and_offset(emit, args, [args["input"].ty.shape[1]])


def _scale_and_offset(emit: Any, args: Mapping[str, Any], sizes: Sequence[Any]) -> list[Any]:
    """Return the scale and the offset of these sizes: 1 and 0 where they are absent."""
    x, size = args["input"], relax.ShapeExpr(sizes)
    absent = ((args["weight"], 1), (args["bias"], 0))
    return [
        emit(relax.op.full(size, relax.const(value, x.ty.dtype), str(x.ty.dtype)))
        if given is None else given
        for given, value in absent
    ]  # fmt: skip


def _layer_norm(importer: Any, node: Any) -> Any:
    """Convert native_layer_norm, over axes whose sizes may be symbolic; only output 0."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["input"]
    _check_dtype(x)
    count = len(args["normalized_shape"])
    sizes = list(x.ty.shape)[x.ty.ndim - count :]
    if all(isinstance(size, tirx.IntImm) for size in sizes):
        return importer._native_layer_norm(node)  # what is absent becomes constants
    scale, offset = _scale_and_offset(emit, args, sizes)
    return emit(relax.op.nn.layer_norm(x, scale, offset, axes=list(range(-count, 0)),
                                       epsilon=args["eps"]))  # fmt: skip


def _check_dtype(x: Any) -> None:
    if str(x.ty.dtype) == "float64":
        raise NotImplementedError("TVM normalises float32 and float16, got float64; export "
                                  "model.float()")  # fmt: skip


def _max_pool(rank: int) -> Converter:
    """Convert max_pool2d_with_indices and max_pool3d_with_indices."""
    op, layout = getattr(relax.op.nn, f"max_pool{rank}d"), f"NC{'DHW'[3 - rank :]}"

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, emit = args["self"], importer.block_builder.emit
        kernel = _each(args["kernel_size"], rank)
        strides = _each(args["stride"], rank) or kernel
        padding, dilation = (_each(args[name], rank) for name in ("padding", "dilation"))
        if is_read(node, 1):

            def place(k: int, size: Any, at: Any, step: Any) -> Any:
                position = at * strides[k] - padding[k] + step * dilation[k]
                return position, tirx.all(position >= 0, position < size)

            sizes = importer._sizes_of(node, 0)[-rank:]
            return largest(importer, x, sizes, lambda k, _: kernel[k], place)
        batch = x if x.ty.ndim == rank + 2 else emit(relax.op.expand_dims(x, 0))
        out = emit(op(
            batch, pool_size=kernel, strides=strides, padding=padding, dilation=dilation,
            ceil_mode=args["ceil_mode"], layout=layout))  # fmt: skip
        return [out if batch is x else emit(relax.op.squeeze(out, [0])), None]

    return convert


def _average_pool(rank: int) -> Converter:
    """Convert avg_pool2d and avg_pool3d; a divisor of its own replaces the size of the window."""
    op, layout = getattr(relax.op.nn, f"avg_pool{rank}d"), f"NC{'DHW'[3 - rank :]}"

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        kernel, divisor = _each(args["kernel_size"], rank), args["divisor_override"]
        if divisor is not None and args["ceil_mode"]:
            raise NotImplementedError("it has a divisor of its own and rounds sizes up; pass "
                                      "ceil_mode=False")  # fmt: skip
        x, emit = args["self"], importer.block_builder.emit
        batch = x if x.ty.ndim == rank + 2 else emit(relax.op.expand_dims(x, 0))
        out = emit(op(
            batch, pool_size=kernel, strides=_each(args["stride"], rank) or kernel,
            padding=_each(args["padding"], rank), ceil_mode=args["ceil_mode"], layout=layout,
            count_include_pad=args["count_include_pad"] or divisor is not None))  # fmt: skip
        if batch is not x:
            out = emit(relax.op.squeeze(out, [0]))
        if divisor is None:
            return out
        share = relax.const(math.prod(kernel) / divisor, out.ty.dtype)
        return emit(relax.op.multiply(out, share))

    return convert


def _each(values: Any, rank: int) -> list[int]:
    sizes = [int(value) for value in values]
    return sizes * rank if len(sizes) == 1 else sizes


def _adaptive_max_pool(rank: int) -> Converter:
    """Convert adaptive_max_pool2d and adaptive_max_pool3d: window i of n is i * size // n on."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, emit = args["self"], importer.block_builder.emit
        before, after = node.args[0].meta["val"].shape[-rank:], list(args["output_size"])
        if not is_read(node, 1):
            if after == [1] * rank:
                axes = list(range(x.ty.ndim - rank, x.ty.ndim))
                return [importer.block_builder.emit_te(extremum_of_floats, x, axes, True, True),
                        None]  # fmt: skip
            even = all(
                isinstance(b, int) and b % a == 0 for b, a in zip(before, after, strict=True)
            )
            if even and x.ty.ndim == rank + 2:
                window = [b // a for b, a in zip(before, after, strict=True)]
                op = getattr(relax.op.nn, f"max_pool{rank}d")
                layout = f"NC{'DHW'[3 - rank :]}"
                out = op(x, pool_size=window, strides=window, layout=layout)
                return [emit(out), None]

        def place(k: int, size: Any, at: Any, step: Any) -> Any:
            position = tirx.floordiv(at * size, after[k]) + step
            return position, position < tirx.floordiv((at + 1) * size + after[k] - 1, after[k])

        def extent(k: int, size: Any) -> Any:
            return tirx.floordiv(size + after[k] - 1, after[k]) + 1

        return largest(importer, x, after, extent, place)

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
    "_native_batch_norm_legit.no_stats": _statistics_norm,
    **{f"max_pool{rank}d_with_indices.default": _max_pool(rank) for rank in (2, 3)},
    **{f"avg_pool{rank}d.default": _average_pool(rank) for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d.default": _adaptive_max_pool(rank) for rank in (2, 3)},
}
