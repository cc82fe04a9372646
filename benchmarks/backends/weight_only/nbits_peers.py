"""Products with 4-bit weights in opinfo, ONNX Runtime and PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.resources import Call

GROUP = 32
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Weights:
    """A matrix by output and input: values of 4 bits, and scales of groups along the input."""

    values: Array
    scales: Array

    @staticmethod
    def random(columns: int, depth: int, rng: np.random.Generator) -> Weights:
        values = rng.integers(0, 16, (columns, depth), "uint8")
        scales = (0.02 * rng.random((columns, depth // GROUP)) / np.sqrt(depth / 64)).astype(
            "float16"
        )
        return Weights(values, scales)

    @property
    def words(self) -> Array:
        """Eight values in a word, as MLC-LLM stores them."""
        values = self.values.reshape(len(self.values), -1, 8).astype("uint32")
        return np.asarray(np.bitwise_or.reduce(values << 4 * np.arange(8, dtype="uint32"), axis=2))

    @property
    def bytes(self) -> Array:
        """Two values in a byte by block, as MatMulNBits stores them."""
        pairs = self.values.reshape(len(self.values), -1, GROUP // 2, 2)
        return np.asarray(pairs[..., 0] | pairs[..., 1] << 4)

    @property
    def floats(self) -> Array:
        scales = self.scales.astype("float32").repeat(GROUP, 1)
        return np.asarray((self.values.astype("float32") - 8) * scales)

    @property
    def size(self) -> int:
        """The bytes of values and scales."""
        return self.values.size // 2 + self.scales.nbytes


def nbits_node(name: str, x: str, y: str, weights: Weights, level: int) -> tuple[Any, list[Any]]:
    """A MatMulNBits and its initialisers."""
    from onnx import helper, numpy_helper

    columns, depth = weights.values.shape
    node = helper.make_node(
        "MatMulNBits", [x, f"{name}_w", f"{name}_s"], [y], domain="com.microsoft", K=depth,
        N=columns, bits=4, block_size=GROUP, accuracy_level=level,
    )  # fmt: skip
    arrays = {"w": weights.bytes, "s": weights.scales.astype("float32")}
    return node, [numpy_helper.from_array(a, f"{name}_{k}") for k, a in arrays.items()]


def onnx_session(nodes: Sequence[Any], constants: Sequence[Any], inputs: Sequence[Any],
                 outputs: Sequence[Any], threads: int) -> Any:  # fmt: skip
    import onnxruntime
    from onnx import helper

    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])  # fmt: skip


def onnx_product(weights: Weights, x: Array, level: int, threads: int) -> Call:
    from onnx import TensorProto, helper

    node, constants = nbits_node("p", "x", "y", weights, level)
    shapes = x.shape, (x.shape[0], len(weights.values))
    x_info, y_info = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
                      for n, s in zip("xy", shapes, strict=True))  # fmt: skip
    session = onnx_session([node], constants, [x_info], [y_info], threads)
    return lambda: session.run(None, {"x": x})[0]


def torch_product(weights: Weights, x: Array) -> Call:
    import torch

    matrix, rows = torch.from_numpy(weights.floats), torch.from_numpy(x)
    compiled = torch.compile(lambda rows: torch.nn.functional.linear(rows, matrix))

    def run() -> Any:
        with torch.inference_mode():
            return compiled(rows).numpy()

    return run


def dequantized(emit: Any, weights: Weights, dtype: str = "float32") -> Any:
    """The weights in Relax by input and output, in float32."""
    from tvm import relax

    from opinfo.analysis.composites.grouped import group_dequantize

    words, scales = relax.const(weights.words), relax.const(weights.scales.astype(dtype))
    w = emit(group_dequantize(words, scales, bits=4, group_size=GROUP, axis=1, offset=8.0))
    return emit(
        relax.op.permute_dims(w if dtype == "float32" else emit(relax.op.astype(w, "float32")))
    )


def opinfo_products(weights: Sequence[Weights], rows: Sequence[Array]) -> list[Call]:
    """Calls of the products with float16 scales, then of those with float32 scales."""
    import tvm
    from tvm import relax

    from opinfo.byoc.codegen.host_target import native_target
    from opinfo.byoc.compile import compile_module

    builder, names = relax.BlockBuilder(), []
    for dtype in ("float16", "float32"):
        for k, (w, x) in enumerate(zip(weights, rows, strict=True)):
            names.append(f"f{k}_{dtype}")
            var = relax.Var("x", relax.TensorType(x.shape, "float32"))
            with builder.function(names[-1], [var]):
                with builder.dataflow():
                    matrix = dequantized(builder.emit, w, dtype)
                    out = builder.emit_output(relax.op.matmul(var, matrix))
                builder.emit_func_output(out)
    library = compile_module(builder.get(), ["weight_only", "tvm"], target=native_target())
    assert len(library.dispatched.taken) == len(names)
    machine = library.machine()
    arguments = [tvm.runtime.tensor(x) for x in (*rows, *rows)]
    return [lambda f=machine[n], a=a: f(a).numpy()
            for n, a in zip(names, arguments, strict=True)]  # fmt: skip
