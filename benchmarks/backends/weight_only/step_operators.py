"""The operators of a step of a decoder, in Relax, ONNX and torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.backends.weight_only.nbits_peers import (
    Array,
    dequantized,
    nbits_node,
)


class RelaxOps:
    def __init__(self, emit: Any, products: Sequence[Any]) -> None:
        from tvm import relax

        self.emit, self.products, self.op, self.relax = emit, products, relax.op, relax

    def constant(self, array: Array) -> Any:
        return self.relax.const(array)

    def product(self, x: Any, k: int) -> Any:
        return self.emit(self.op.matmul(x, dequantized(self.emit, self.products[k], "float16")))

    def norm(self, x: Any, width: int) -> Any:
        ones = self.constant(np.ones(width, "float32"))
        return self.emit(self.op.nn.rms_norm(x, ones, [-1], 1e-5))

    def split(self, x: Any, sizes: Sequence[int], axis: int) -> Any:
        parts = self.emit(self.op.split(x, [int(s) for s in np.cumsum(sizes)[:-1]], axis))
        return [self.emit(self.relax.TupleGetItem(parts, k)) for k in range(len(sizes))]

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.emit(self.op.concat(list(xs), axis))

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self.emit(self.op.reshape(x, tuple(shape)))

    def softmax(self, x: Any) -> Any:
        return self.emit(self.op.nn.softmax(x, -1))

    def __getattr__(self, name: str) -> Any:
        return lambda *xs: self.emit(getattr(self.op, name)(*xs))


class OnnxOps:
    def __init__(self, products: Sequence[Any], level: int = 0) -> None:
        self.products, self.level = products, level
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Array) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def node(self, name: str, *xs: str, results: int = 1, **attrs: Any) -> Any:
        from onnx import helper

        outs = [f"v{len(self.nodes)}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(name, list(xs), outs, **attrs))
        return outs[0] if results == 1 else outs

    def product(self, x: str, k: int) -> str:
        node, constants = nbits_node(f"p{k}", x, f"p{k}_y", self.products[k], self.level)
        self.nodes.append(node)
        self.constants += constants
        return f"p{k}_y"

    def norm(self, x: str, width: int) -> Any:
        ones = self.constant(np.ones(width, "float32"))
        return self.node("SimplifiedLayerNormalization", x, ones, axis=-1, epsilon=1e-5)

    def split(self, x: str, sizes: Sequence[int], axis: int) -> Any:
        parts = self.constant(np.asarray(sizes, "int64"))
        return self.node("Split", x, parts, results=len(sizes), axis=axis)

    def concat(self, xs: Sequence[str], axis: int) -> Any:
        return self.node("Concat", *xs, axis=axis)

    def reshape(self, x: str, shape: Sequence[int]) -> Any:
        return self.node("Reshape", x, self.constant(np.asarray(shape, "int64")))

    def softmax(self, x: str) -> Any:
        return self.node("Softmax", x, axis=-1)

    def __getattr__(self, name: str) -> Any:
        known = {"multiply": "Mul", "add": "Add", "matmul": "MatMul", "sigmoid": "Sigmoid"}
        return lambda *xs: self.node(known[name], *xs)


class TorchOps:
    def __init__(self, products: Sequence[Array]) -> None:
        import torch

        self.torch, self.products = torch, list(map(torch.from_numpy, products))

    def constant(self, array: Array) -> Any:
        return self.torch.from_numpy(array)

    def product(self, x: Any, k: int) -> Any:
        return self.torch.nn.functional.linear(x, self.products[k])

    def norm(self, x: Any, width: int) -> Any:
        return self.torch.nn.functional.rms_norm(
            x, (width,), self.constant(np.ones(width, "float32")), 1e-5
        )

    def split(self, x: Any, sizes: Sequence[int], axis: int) -> Any:
        return self.torch.split(x, list(sizes), axis)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.torch.cat(list(xs), axis)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self.torch.reshape(x, tuple(shape))

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, -1)

    def __getattr__(self, name: str) -> Any:
        known = {"multiply": "mul"}
        return getattr(self.torch, known.get(name, name))
