"""Copies, and what draws no random numbers unless a model is trained; tensors of one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvm import relax

from ..onnx_graph.scalars import Rational
from .arithmetic.torch_arithmetic import refuse_random
from .nodes.arguments import Converter, arguments
from .nodes.constants import evaluated, filled


def _copy(importer: Any, node: Any) -> Any:
    """Convert copy: the source in the dtype and shape of the first tensor, which stays."""
    source, emit = arguments(importer, node)["src"], importer.block_builder.emit
    dtype = importer._convert_data_type(node.meta["val"].dtype)
    if str(source.ty.dtype) != dtype:
        source = emit(relax.op.astype(source, dtype))
    return emit(relax.op.broadcast_to(source, importer._sizes(node)))


def _repeat(importer: Any, node: Any) -> Any:
    """Convert repeat; `tile` takes no symbolic number, so each axis is spread along a new one."""
    args = arguments(importer, node)
    x, counts, emit = args["self"], list(args["repeats"]), importer.block_builder.emit
    if all(isinstance(count, int) for count in counts):
        return emit(relax.op.tile(x, counts))
    shape = [1] * (len(counts) - x.ty.ndim) + list(x.ty.shape)
    single = [size for extent in shape for size in (1, extent)]
    spread = [size for pair in zip(counts, shape, strict=True) for size in pair]
    x = emit(relax.op.broadcast_to(emit(relax.op.reshape(x, single)), spread))
    return emit(relax.op.reshape(x, importer._sizes(node)))


def _arange(importer: Any, node: Any) -> Any:
    """Convert arange; TVM counts the elements of a falling one as if it rose."""
    step = arguments(importer, node)["step"]
    if isinstance(step, (int, float)) and step < 0 and not node.all_input_nodes:
        return relax.const(importer._convert_pytorch_tensor_to_tvm(evaluated(node)))
    return importer._arange(node)


def _full(theirs: str) -> Converter:
    """Convert full; TVM's method, whose operators backends know, takes no infinity or NaN."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        number = args.get("fill_value", args.get("value"))
        dtype = importer._convert_data_type(node.meta["val"].dtype)
        if isinstance(number, Rational) or _is_tensor(number):
            value = importer._number(number, dtype)
            return importer.block_builder.emit(
                relax.op.broadcast_to(value, relax.ShapeExpr(importer._sizes(node)))
            )
        if not isinstance(number, float) or math.isfinite(number):
            return getattr(importer, theirs)(node)
        return filled(importer, importer._sizes(node), number, dtype)

    return convert


def _scalar_tensor(importer: Any, node: Any) -> Any:
    """Convert scalar_tensor, of a number or of what is computed from sizes."""
    number = arguments(importer, node)["s"]
    dtype = importer._convert_data_type(node.meta["val"].dtype)
    if isinstance(number, (bool, int, float)):
        return importer.block_builder.emit(relax.const(number, dtype))
    return importer._number(number, dtype)


def _is_tensor(value: Any) -> bool:
    return isinstance(getattr(value, "ty", None), relax.TensorType)


def _dropout(importer: Any, node: Any) -> Any:
    """Convert native_dropout, which keeps all elements when a model is evaluated."""
    args = arguments(importer, node)
    if args["train"] and args["p"] > 0:
        refuse_random(importer, node)
    return [args["input"], None]


def _rrelu(importer: Any, node: Any) -> Any:
    """Convert rrelu, whose slope is the mean of its bounds when a model is evaluated."""
    args = arguments(importer, node)
    if args["training"]:
        refuse_random(importer, node)
    slope = (args["lower"] + args["upper"]) / 2
    result = importer.block_builder.emit(relax.op.nn.leakyrelu(args["self"], slope))
    several = isinstance(node.meta["val"], (tuple, list))
    return [result, None] if several else result


CONVERTERS: Mapping[str, Converter] = {
    "full.default": _full("_full"), "full_like.default": _full("_full_like"),
    "fill.Scalar": _full("_fill"), "copy.default": _copy, "repeat.default": _repeat,
    "arange.start_step": _arange,
    "scalar_tensor.default": _scalar_tensor, "native_dropout.default": _dropout,
    **dict.fromkeys(("rrelu_with_noise.default", "rrelu_with_noise_functional.default",
                     "rrelu.default"), _rrelu),
}  # fmt: skip
