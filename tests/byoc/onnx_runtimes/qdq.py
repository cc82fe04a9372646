"""Quantised ONNX models as exporters write them: each operator between steps of rounding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: The step of activations, which are about as large as 1.
STEP = 5 / 127


@dataclass
class Net:
    """An ONNX graph that is being written; every value is dequantized."""

    shape: tuple[int, ...]
    dtype: str = "uint8"
    nodes: list[Any] = field(default_factory=list)
    known: list[Any] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    channels: dict[str, int] = field(default_factory=dict)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.known)}"
        self.known.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attrs))
        return name

    def quantized(self, x: str, signed: bool = True) -> str:
        """A value rounded to steps; uint8 around 128, or from 0 where nothing is negative."""
        zero = np.int8(0) if self.dtype == "int8" else np.uint8(128 if signed else 0)
        step = STEP if signed or self.dtype == "int8" else 0.57 * STEP  # few sums lie halfway
        scale = [self.constant(np.float32(step)), self.constant(zero)]
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *scale), *scale)

    def weights(self, shape: tuple[int, ...], axis: int, fan: int) -> str:
        """int8, with a scale for each channel."""
        w = self.rng.standard_normal(shape) * np.sqrt(2 / fan)
        over = tuple(k for k in range(len(shape)) if k != axis)
        scale = (np.abs(w).max(over) / 127).astype("float32")
        q = np.rint(w / np.expand_dims(scale, over)).astype("int8")
        zero = self.constant(np.zeros(scale.shape, "int8"))
        return self.op("DequantizeLinear", self.constant(q), self.constant(scale), zero, axis=axis)

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1,
    ) -> str:  # fmt: skip
        fan = inputs // groups * kernel**2
        w = self.weights((outputs, inputs // groups, kernel, kernel), 0, fan)
        bias = self.rng.integers(-300, 300, outputs).astype("int32")
        b = self.op("DequantizeLinear", self.constant(bias), self.constant(np.float32(STEP / 100)))
        pad = kernel // 2
        return self.op("Conv", x, w, b, pads=[pad] * 4, strides=[stride] * 2, group=groups)

    def active(self, x: str, kind: str = "Relu") -> str:
        return self.quantized(self.op(kind, x), signed=False)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.op("Gemm", x, self.weights((outputs, inputs), 0, inputs), transB=1)

    def model(self, out: str) -> Any:
        graph = helper.make_graph(
            self.nodes, "qdq",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], self.known,
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        made.ir_version = 10
        return onnx.shape_inference.infer_shapes(made)


def mobile(size: int = 16, dtype: str = "uint8") -> Any:
    """A stem, inverted bottlenecks with a residual, a classifier."""
    net = Net((1, 3, size, size), dtype)
    y = net.active(net.conv(net.quantized("x"), 3, 8, stride=2))
    for inputs, stride, outputs in ((8, 1, 8), (8, 2, 16)):
        z = net.active(net.conv(y, inputs, 4 * inputs, 1))
        z = net.active(net.conv(z, 4 * inputs, 4 * inputs, 3, stride, groups=4 * inputs))
        z = net.quantized(net.conv(z, 4 * inputs, outputs, 1))
        y = net.quantized(net.op("Add", y, z)) if stride == 1 else z
    y = net.quantized(net.op("GlobalAveragePool", y))
    y = net.quantized(net.op("Flatten", y))
    return net.model(net.quantized(net.dense(y, 16, 10)))


def residual(size: int = 16, dtype: str = "uint8") -> Any:
    """A stem with a pool, a block whose sum is quantised once, a classifier."""
    net = Net((1, 3, size, size), dtype)
    y = net.active(net.conv(net.quantized("x"), 3, 16, 7, 2))
    y = net.quantized(net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
                      signed=False)  # fmt: skip
    z = net.conv(net.active(net.conv(y, 16, 32, 3, 2)), 32, 32)
    y = net.active(net.op("Add", z, net.quantized(net.conv(y, 16, 32, 1, 2))))
    y = net.quantized(net.op("GlobalAveragePool", y), signed=False)
    y = net.quantized(net.op("Flatten", y), signed=False)
    return net.model(net.dense(y, 32, 10))
