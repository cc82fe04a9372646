"""An ONNX graph that is being written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...analysis.op_info import Constant
from ..region import Array, Region, Tensor

#: The operators' version, and that of the file format: ONNX Runtime 1.17 knows both.
OPSET, IR_VERSION = 20, 9


class Writer:
    """Nodes and constants of one region; names are ``v<number>``."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.count = 0

    def node(self, op: str, inputs: Iterable[str], **attrs: Any) -> str:
        from onnx import helper

        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attrs))
        return out

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, array: Array) -> str:
        from onnx import numpy_helper

        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def ints(self, values: Iterable[Any]) -> str:
        return self.constant(np.asarray([int(v) for v in values], "int64"))

    def scalar(self, value: Any, dtype: str) -> str:
        return self.constant(np.asarray(float(value), dtype))


def model(region: Region) -> bytes:
    """The region as an ONNX file; inputs are ``x<k>``, results ``y<k>``."""
    import onnx
    from onnx import helper

    from .ops import WRITE

    w = Writer()
    constants = [w.constant(a) for a in region.constants]
    made: list[str] = []

    def name(o: Tensor | Constant, dtype: str) -> str:
        if isinstance(o, Constant):
            return w.scalar(o.value, dtype)
        if o.source == "input":
            return f"x{o.index}"
        return (constants if o.source == "constant" else made)[o.index]

    for c in region.calls:
        made.append(WRITE[c.op](w, c, [name(o, c.result.dtype) for o in c.operands]))
    for k, t in enumerate(region.results):
        w.nodes.append(helper.make_node("Identity", [made[t.index]], [f"y{k}"]))
    inputs = [_value(f"x{k}", t) for k, t in enumerate(region.inputs)]
    outputs = [_value(f"y{k}", t) for k, t in enumerate(region.results)]
    graph = helper.make_graph(w.nodes, region.symbol, inputs, outputs, w.initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    made_model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    onnx.checker.check_model(made_model)
    return bytes(made_model.SerializeToString())


def _value(name: str, t: Tensor) -> Any:
    from onnx import TensorProto, helper

    extents = [e if isinstance(e, int) else None for e in t.shape]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, extents)
