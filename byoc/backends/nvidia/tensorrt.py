"""NVIDIA TensorRT: a region as a network definition, built into an engine where it runs.

Convolutions and pools are taken with channels first; operators after an anchor are pointwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...backend.backend import Backend, Code
from ...backend.region import Array, Call, Region, Tensor
from ...patterns.extents.symbolic_shapes import same_shape, spread, static
from ...patterns.pattern import Node, Pattern, PatternStep, one
from ..common.region_source import Constants, ints, literal, number
from .libraries.dtypes import typed
from .libraries.estimated_cost import conversion, cost
from .libraries.locate import CUDART, TENSORRT, available, options
from .libraries.source import GpuFunction, joined_source, library_headers

DTYPES = {"float32": "DataType::kFLOAT", "float16": "DataType::kHALF",
          "bfloat16": "DataType::kBF16"}  # fmt: skip
BINARY = {"relax.add": "kSUM", "relax.subtract": "kSUB", "relax.multiply": "kPROD",
          "relax.divide": "kDIV", "relax.maximum": "kMAX", "relax.minimum": "kMIN"}  # fmt: skip
UNARY = {"relax.exp": "kEXP", "relax.log": "kLOG", "relax.sqrt": "kSQRT", "relax.abs": "kABS",
         "relax.negative": "kNEG"}  # fmt: skip
ACTIVATIONS = {"relax.nn.relu": "kRELU", "relax.sigmoid": "kSIGMOID", "relax.tanh": "kTANH",
               "relax.nn.gelu": "kGELU_ERF", "relax.nn.gelu_tanh": "kGELU_TANH"}  # fmt: skip
BOUNDED = ("relax.nn.relu6", "relax.clip", "relax.nn.leakyrelu", "relax.nn.silu")
CONV = ("relax.nn.conv2d", "relax.nn.conv3d")
POOL = ("relax.nn.max_pool2d", "relax.nn.avg_pool2d")
LIBRARIES = (TENSORRT, CUDART)
LONGEST = 12


def convolution(node: Node) -> str | None:
    """The data has its channels first, and the weights are constants that are not packed."""
    attrs, weights = node.info.attrs, node.operand(1)
    data, pixels = str(attrs["data_layout"]), "DHW"[3 - (len(node.result.shape) - 2) :]
    if data != f"NC{pixels}" or str(attrs["out_layout"]) not in ("", data):
        return f"data_layout is {data}, expected NC{pixels}"
    if sorted(str(attrs["kernel_layout"])) != sorted(f"OI{pixels}"):
        return f"kernel_layout {attrs['kernel_layout']} is packed"
    return None if weights is not None and weights.constant else "the weights are not constant"


def pooling(node: Node) -> str | None:
    """The layout is NCHW, without dilation and ceil_mode."""
    attrs = node.info.attrs
    layout = str(attrs["layout"])
    if layout != "NCHW" or str(attrs["out_layout"]) not in ("", layout):
        return f"layout is {layout}, expected NCHW"
    dilation = [int(d) for d in attrs["dilation"]]
    if dilation != [1, 1]:
        return f"dilation is {dilation}, expected 1"
    return "ceil_mode is True, expected False" if attrs.get("ceil_mode") else None


def matrices(node: Node) -> str | None:
    first, second = node.operand(0), node.operand(1)
    if first is None or second is None or min(first.rank, second.rank) < 2:
        return "an operand is not a matrix"
    return None


def softmax(node: Node) -> str | None:
    return None if node.operand(0) is not None else "the operand is a literal"


def pointwise(node: Node) -> str | None:
    """The chain keeps its shape; other operands broadcast to it."""
    assert node.chain is not None
    if not same_shape(node.result.shape, node.chain.shape):
        return f"{node.info.name} broadcasts the value that it follows"
    for operand in node.others:
        if spread(operand.shape, node.result.shape) is None:
            return f"an operand of shape {operand.shape} does not broadcast"
        if operand.constant and not static(operand.shape):
            return "a constant has a symbolic shape, expected a static shape"
    return None


POST = PatternStep(
    frozenset((*BINARY, *UNARY, *ACTIVATIONS, *BOUNDED)), (typed, pointwise), 0, LONGEST
)
PATTERNS = (
    Pattern("conv", one(CONV, typed, convolution), POST),
    Pattern("pool", one(POOL, typed, pooling), POST),
    Pattern("matmul", one("relax.matmul", typed, matrices), POST),
    Pattern("softmax", one("relax.nn.softmax", typed, softmax), POST),
)


class LayerWriter:
    """The layers of one region."""

    def __init__(self, frame: GpuFunction) -> None:
        self.frame, self.region = frame, frame.region
        self.type = DTYPES[frame.region.result.dtype]
        self.rank = len(frame.region.result.shape)

    def body(self) -> list[str]:
        lines = [f"ITensor* v{k} = {self.layer(c)};" for k, c in enumerate(self.region.calls)]
        return ["Network n(c);", *lines, f"return n.build(v{len(lines) - 1});"]

    def layer(self, call: Call) -> str:
        if call.op in ANCHORS:
            return ANCHORS[call.op](self, call)
        if call.op in BINARY:
            how = f"ElementWiseOperation::{BINARY[call.op]}"
            return f"n.elementwise({how}, {self.side(call, 0)}, {self.side(call, 1)})"
        operand = self.side(call, 0)
        if call.op in UNARY:
            return f"n.unary(UnaryOperation::{UNARY[call.op]}, {operand})"
        if call.op == "relax.nn.silu":
            gate = f"n.activation(ActivationType::kSIGMOID, {operand}, 0.0f, 0.0f)"
            return f"n.elementwise(ElementWiseOperation::kPROD, {operand}, {gate})"
        how, alpha, beta = _activation(call)
        return f"n.activation(ActivationType::{how}, {operand}, {number(alpha)}, {number(beta)})"

    def side(self, call: Call, position: int) -> str:
        """The C++ of an operand; a literal becomes a constant."""
        scalar = literal(call, f"x{position + 1}") if call.op in BINARY else None
        if scalar is not None:
            return self.constant(np.full((1,) * self.rank, scalar, "float32"), call.result.dtype)
        tensors = [o for o in call.operands if isinstance(o, Tensor)]
        operand = call.operands[position] if position < len(call.operands) else None
        if not isinstance(operand, Tensor):
            (operand,) = tensors
        return self.value(operand)

    def value(self, tensor: Tensor) -> str:
        if tensor.source == "call":
            return f"v{tensor.index}"
        if tensor.source == "input":
            return f"n.input({tensor.index}, {DTYPES[tensor.dtype]}, {self.rank})"
        array = self.region.constants[tensor.index]
        return self.constant(
            array.reshape((1,) * (self.rank - array.ndim) + array.shape), tensor.dtype
        )

    def constant(self, array: Array, dtype: str) -> str:
        k = self.frame.constants.add(np.ascontiguousarray(_as(array, dtype)))
        return f"n.constant({k}, {DTYPES[dtype]})"


def _as(array: Array, dtype: str) -> Array:
    if dtype == "bfloat16":
        import ml_dtypes

        return array.astype(ml_dtypes.bfloat16)
    return array.astype(dtype)


def _activation(call: Call) -> tuple[str, float, float]:
    match call.op:
        case "relax.nn.relu6":
            return "kCLIP", 0.0, 6.0
        case "relax.clip":
            return "kCLIP", float(call.attrs["min"]), float(call.attrs["max"])
        case "relax.nn.leakyrelu":
            return "kLEAKY_RELU", float(call.attrs["alpha"]), 0.0
    return ACTIVATIONS[call.op], 0.0, 0.0


def _sizes(*lists: Sequence[int]) -> str:
    return f"{{{', '.join(f'{{{ints(x)}}}' for x in lists)}}}"


def _conv(writer: LayerWriter, call: Call) -> str:
    """The C++ of a convolution, with its weights in OIHW."""
    operand, kernel = call.operands[:2]
    assert isinstance(operand, Tensor) and isinstance(kernel, Tensor)
    layout, data = str(call.attrs["kernel_layout"]), str(call.attrs["data_layout"])
    order = [layout.index(a) for a in data.replace("N", "O").replace("C", "I")]
    array = np.ascontiguousarray(writer.region.constants[kernel.index].transpose(order))
    half = len(data) - 2
    padding = call.attrs["padding"]
    sizes = _sizes(call.attrs["strides"], call.attrs["dilation"], padding[:half], padding[half:])
    k = writer.frame.constants.add(array)
    value, groups = writer.value(operand), call.attrs["groups"]
    return f"n.convolution({value}, {k}, {writer.type}, {sizes}, {groups})"


def _pool(writer: LayerWriter, call: Call) -> str:
    (operand,) = call.operands
    assert isinstance(operand, Tensor)
    how = "kMAX" if "max" in call.op else "kAVERAGE"
    padding = call.attrs["padding"]
    sizes = _sizes(call.attrs["pool_size"], call.attrs["strides"], padding[:2], padding[2:])
    padded = "true" if call.attrs.get("count_include_pad") else "false"
    return f"n.pooling({writer.value(operand)}, PoolingType::{how}, {sizes}, false, {padded})"


def _matmul(writer: LayerWriter, call: Call) -> str:
    a, b = call.operands
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    return f"n.matmul({writer.value(a)}, {writer.value(b)})"


def _softmax(writer: LayerWriter, call: Call) -> str:
    (operand,) = call.operands
    assert isinstance(operand, Tensor)
    return f"n.softmax({writer.value(operand)}, {int(call.attrs['axis']) % len(operand.shape)})"


ANCHORS: dict[str, Callable[[LayerWriter, Call], str]] = {
    **dict.fromkeys(CONV, _conv), **dict.fromkeys(POOL, _pool),
    "relax.matmul": _matmul, "relax.nn.softmax": _softmax,
}  # fmt: skip


def source(regions: Sequence[Region]) -> tuple[str, Constants]:
    """The C++ of all regions, and its constants."""
    heads = library_headers(__package__, "tensorrt.hpp")
    return joined_source(heads, regions, lambda frame: LayerWriter(frame).body())


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    text, constants = source(regions)
    symbols = tuple(r.symbol for r in regions)
    rounding = "layers are fused, and halves rounded, as TensorRT chooses"
    rounds = tuple((s, rounding) for s in symbols)
    return Code(text, symbols, constants.named(symbols[0]), options(*LIBRARIES), rounds)


BACKEND = Backend(
    "tensorrt", PATTERNS, convert, lambda: available(*LIBRARIES),
    {"relax.nn.conv2d": ("NCHW", "OIHW"), "relax.matmul": ()}, cost, TENSORRT.version,
    conversion=conversion,
)  # fmt: skip
