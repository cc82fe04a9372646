"""Parts of small ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, "float32")


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, "int64")


def small_model(
    nodes: list[Any], weights: dict[str, Any] | None = None, inputs: tuple[Any, ...] = (),
    output: str = "y", opset: int = 18, **more: Any,
) -> Any:  # fmt: skip
    initial = [w if isinstance(w, TensorProto) else numpy_helper.from_array(w, name)
               for name, w in (weights or {}).items()]  # fmt: skip
    y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", list(inputs), [y], initial)
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **more)


def declared(shape: Any = (2, 3), dtype: int = TensorProto.FLOAT, name: str = "x") -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def op_node(op: str, inputs: list[str], outputs: list[str] | None = None, **attrs: Any) -> Any:
    name = attrs.pop("name", f"the {op.lower()}")
    return helper.make_node(op, inputs, outputs or ["y"], name, **attrs)


def own_function(name: str, nodes: list[Any]) -> Any:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["x"], ["y"], nodes, opsets)


def own_call(name: str, source: str = "x", target: str = "y") -> Any:
    return helper.make_node(name, [source], [target], f"call {name}", domain="own")
