"""Nodes of half types compute in float32 and round their results once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

from opinfo.frontend.formats.from_onnx import from_model
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, compare, floats, model

make = helper.make_node
#: One rounding of float16, relative to the largest value.
ROUNDING = 2.0**-11
IMAGE: Inputs = {"x": ([1, 2, "h", "w"], "float16")}
ROWS: Inputs = {"x": (["n", 32], "float16"), "z": (["n", 32], "float16")}


def halves(*shape: int, seed: int = 0) -> Array:
    return floats(*shape, seed=seed).astype("float16")


def _rows(count: int) -> dict[str, Array]:
    return {"x": 3 * halves(count, 32), "z": halves(count, 32, seed=1)}


def test_sums_of_many_ones() -> None:
    """A sum in float16 stops at 2048."""
    nodes = [make("ReduceSum", ["x"], ["y"], keepdims=0), make("ReduceMean", ["x"], ["m"]),
             make("MatMul", ["x", "w"], ["p"]), make("Gemm", ["x", "w", "b"], ["g"], alpha=0.5),
             make("CumSum", ["x", "one"], ["c"])]  # fmt: skip
    weights = {"w": np.ones((3000, 2), "float16"), "b": np.ones(2, "float16"), "one": np.array(1)}
    proto = model(nodes, {"x": (["n", 3000], "float16")}, list("ympgc"), weights)
    compare(proto, {"x": np.ones((2, 3000), "float16")}, tolerance=ROUNDING)


def test_convolutions_round_once() -> None:
    """The bias is added in float32, and the operands stay in float16."""
    nodes = [make("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1]),
             make("ConvTranspose", ["x", "t", "b"], ["z"], strides=[2, 2]),
             make("AveragePool", ["x"], ["a"], kernel_shape=[2, 3]),
             make("MaxPool", ["x"], ["m"], kernel_shape=[2, 3]),
             make("Resize", ["x", "", "factors"], ["r"], mode="linear")]  # fmt: skip
    weights = {"w": halves(3, 2, 3, 3), "t": halves(2, 3, 3, 3), "b": 100 * halves(3),
               "factors": np.array([1, 1, 2, 2], "float32")}  # fmt: skip
    proto = model(nodes, IMAGE, list("yzamr"), weights)
    mod = compare(proto, {"x": halves(1, 2, 6, 7)}, tolerance=1.01 * ROUNDING)
    convolution = next(line for line in mod.script().splitlines() if "nn.conv2d(" in line)
    assert 'out_dtype="float32"' in convolution
    assert convolution.split("nn.conv2d(")[1].startswith("x,")


def test_norms_and_activations() -> None:
    weights = {"g": halves(32), "b": halves(32, seed=2)}
    nodes = [make("Softmax", ["x"], ["s"], axis=-1), make("Gelu", ["x"], ["e"]),
             make("LayerNormalization", ["x", "g", "b"], ["l"]), make("Sigmoid", ["x"], ["i"]),
             make("Exp", ["x"], ["p"]), make("Div", ["x", "g"], ["d"]),
             make("LogSoftmax", ["x"], ["o"]), make("Sum", ["x", "z", "g"], ["t"]),
             make("Mean", ["x", "z", "x"], ["u"])]  # fmt: skip
    proto = model(nodes, ROWS, list("selipdotu"), weights, opset=20)
    compare(proto, _rows(3), tolerance=1.01 * ROUNDING)


def test_what_moves_or_selects_stays_in_its_dtype() -> None:
    weights = {"low": np.array(-0.5, "float16"), "high": np.array(0.5, "float16")}
    nodes = [make("Less", ["x", "z"], ["c"]), make("Where", ["c", "x", "z"], ["w"]),
             make("Clip", ["x", "low", "high"], ["l"]), make("Max", ["x", "z"], ["m"]),
             make("Cast", ["x"], ["f"], to=TensorProto.FLOAT), make("Relu", ["x"], ["r"]),
             make("Cast", ["f"], ["h"], to=TensorProto.FLOAT16), make("Equal", ["x", "z"], ["e"]),
             make("Concat", ["x", "z"], ["j"], axis=1), make("Transpose", ["x"], ["t"]),
             make("ArgMax", ["x"], ["a"], axis=1), make("Pow", ["x", "two"], ["q"])]  # fmt: skip
    weights["two"] = np.array(2, "float32")
    proto = model(nodes, ROWS, list("cwlmfrhejtaq"), weights)
    compare(proto, _rows(3), tolerance=1e-7)
    kept = [node for node in nodes if node.op_type in ("Max", "Concat", "Transpose", "Relu")]
    assert "float32" not in from_model(model(kept, ROWS, list("mrjt")), {}).script()


def test_recurrent_and_quantized_operators() -> None:
    weights = {"w": halves(1, 16, 8), "r": halves(1, 16, 4), "b": halves(1, 32),
               "scale": np.array(0.02, "float16"), "zero": np.array(3, "uint8")}  # fmt: skip
    nodes = [make("LSTM", ["x", "w", "r", "b"], ["h"], hidden_size=4),
             make("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
             make("DequantizeLinear", ["q", "scale", "zero"], ["d"])]  # fmt: skip
    proto = model(nodes, {"x": ([5, 2, 8], "float16")}, ["h", "q", "d"], weights, opset=19)
    compare(proto, {"x": halves(5, 2, 8)}, tolerance=2 * ROUNDING)


def test_constants_are_folded_in_float32() -> None:
    nodes = [make("ReduceSum", ["w"], ["s"], keepdims=0), make("Add", ["x", "s"], ["y"])]
    proto = model(nodes, {"x": ([2], "float16")}, weights={"w": np.ones(3000, "float16")})
    compare(proto, {"x": np.ones(2, "float16")}, tolerance=ROUNDING)


@pytest.mark.parametrize("op", ["MatMul", "ReduceSum", "Softmax"])
def test_bfloat16(op: str) -> None:
    dtype = np.dtype("bfloat16")
    weights = {"w": np.ones((1000, 1), dtype)} if op == "MatMul" else {}
    proto = model([make(op, ["x", *weights], ["y"])], {"x": (["n", 1000], dtype.name)},
                  weights=weights)  # fmt: skip
    data = floats(3, 1000) + 1
    machine = relax.VirtualMachine(unoptimised(from_model(proto, {})), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(data.astype(dtype))).numpy()
    assert got.dtype == dtype
    wide = data.astype(dtype).astype("float64")
    oracle: dict[str, Any] = {
        "MatMul": wide.sum(1, keepdims=True), "ReduceSum": wide.sum(keepdims=True),
        "Softmax": np.exp(wide) / np.exp(wide).sum(1, keepdims=True),
    }  # fmt: skip
    np.testing.assert_allclose(got.astype("float64"), oracle[op], rtol=1.01 * 2**-8)
