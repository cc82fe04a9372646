"""A model of one product in an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import opinfo

#: Names that C++ would misread, were they not escaped.
X, W, Y = 'an "input"', "w\\", "out??/é"
WEIGHTS = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")


def declared(name: str, shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def product(weights: Any = WEIGHTS, nodes: Any = (), functions: Any = (), sparse: Any = ()) -> Any:
    """relu(x @ w) over a batch, with w as an input too."""
    own = [helper.make_node("MatMul", [X, W], ["a"]), helper.make_node("Relu", ["a"], [Y])]
    inputs, outputs = [declared(X, ["n", 8]), declared(W, [8, 16])], [declared(Y, ["n", 16])]
    initial = [numpy_helper.from_array(weights, W)]
    graph = helper.make_graph([*own, *nodes], "g", inputs, outputs, initial)
    graph.sparse_initializer.extend(sparse)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions,
                             producer_name="xORTM")  # fmt: skip


def saved(folder: Path, model: Any, external: bool = False) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=external, size_threshold=0, location="w.bin")
    return path


def loaded(path: Path) -> Any:
    return opinfo.load(path, {X: (4, 8)})


def expected(x: Any) -> Any:
    return np.maximum(x @ WEIGHTS, 0)


def an_input() -> Any:
    return np.random.default_rng(1).standard_normal((4, 8)).astype("float32")
