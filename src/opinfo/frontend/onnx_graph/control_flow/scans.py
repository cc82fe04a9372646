"""Scan as a Loop whose iterations take their elements from the sequences.

Before: `y = Scan(h, x)` with a body of `(h, x_k)`; after: `y = Loop(steps, true, h)` with a body of
`(k, go, h)` that computes `x_k = Gather(x, k)` first.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ..conversion.converter_table import converts
from ..onnx_node import OnnxNode
from ..values import TensorValue, constant, elements_value
from . import captured
from .control import loop


@converts("Scan")
def scan(node: OnnxNode) -> list[Any]:
    """Convert a Scan by the rules of a Loop: it is unrolled, or becomes a recursive function."""
    if node.opset < 9:
        node.refuse("a batch of sequences, as Scan has before operator set 9")
    return _Scan(node).values()


class _Scan:
    """A Scan with its axes and directions, to be written as a Loop."""

    def __init__(self, node: OnnxNode) -> None:
        import onnx

        self.node, self.count = node, int(node.attr("num_scan_inputs"))
        self.states = len(node.inputs) - self.count
        self.body = onnx.GraphProto()
        self.body.CopyFrom(node.attr("body"))
        if not 0 < self.count <= len(self.body.input) == len(node.inputs):
            node.refuse(f"num_scan_inputs is {self.count}, with {len(node.inputs)} inputs and "
                        f"{len(self.body.input)} of its body")  # fmt: skip
        axes = self._options("scan_input_axes", self.count)
        self.axes = [self._axis(axis, node.rank(self.states + k), "scan_input_axes")
                     for k, axis in enumerate(axes)]  # fmt: skip
        self.steps = node.shape(self.states)[self.axes[0]]
        self.fresh = _fresh_names(node, self.body)
        #: Values by name that the body of the loop reads.
        self.outside: dict[str, TensorValue] = {}

    def _options(self, name: str, count: int) -> list[int]:
        values = [int(value) for value in self.node.attr(name) or [0] * count]
        if len(values) != count:
            self.node.refuse(f"{name} has {len(values)} elements, expected {count}")
        return values

    def _axis(self, axis: int, rank: int, name: str) -> int:
        if not -rank <= axis < rank:
            self.node.refuse(f"{name} has {axis}, expected -{rank} to {rank - 1}")
        return axis % rank

    def values(self) -> list[Any]:
        """Return the last states and the collected rows."""
        node = self.node
        body = self._loop_body()
        inputs = [_size(self.steps), constant(np.array(True)), *node.inputs[: self.states]]
        results = loop(replace(node, op="Loop", attrs={"body": body}, inputs=inputs,
                               scope=ChainMap(self.outside, dict(node.scope))))  # fmt: skip
        rows = results[self.states :]
        axes = self._options("scan_output_axes", len(rows))
        backwards = self._options("scan_output_directions", len(rows))
        return [
            *results[: self.states],
            *(self._placed(*row) for row in zip(rows, axes, backwards, strict=True)),
        ]

    def _takes(self, step: str) -> list[Any]:
        """Return the nodes that take the elements of an iteration."""
        from onnx.helper import make_node

        last, reverse = self.fresh("last"), self.fresh("reverse")
        self.outside[last] = _size(self.node.arithmetic.add(self.steps, -1))
        nodes = [make_node("Sub", [last, step], [reverse])]
        backwards = self._options("scan_input_directions", self.count)
        for k, entry in enumerate(self.body.input[self.states :]):
            name, index = self.fresh("sequence"), reverse if backwards[k] else step
            self.outside[name] = self._sequence(k)
            nodes.append(make_node("Gather", [name, index], [entry.name], axis=self.axes[k]))
        return nodes

    def _sequence(self, k: int) -> TensorValue:
        """Return a sequence with as many elements as the first; the size is checked."""
        node, axis = self.node, self.axes[k]
        dims = node.shape(self.states + k)
        if node.arithmetic.equal(dims[axis], self.steps):
            return node.value(self.states + k)
        sizes = [*dims[:axis], self.steps, *dims[axis + 1 :]]
        return node.result(node.cast_shape(node.tensor(self.states + k), sizes))

    def _loop_body(self) -> Any:
        from onnx import TensorProto, helper

        step, go, on = (self.fresh(name) for name in ("step", "go", "on"))
        body = self.body
        nodes = [*self._takes(step), *body.node, helper.make_node("Identity", [go], [on])]
        states, results = list(body.input[: self.states]), list(body.output)
        for name in ("node", "input", "output"):
            body.ClearField(name)
        body.node.extend(nodes)
        body.input.extend([helper.make_tensor_value_info(step, TensorProto.INT64, []),
                           helper.make_tensor_value_info(go, TensorProto.BOOL, []),
                           *states])  # fmt: skip
        body.output.extend([helper.make_tensor_value_info(on, TensorProto.BOOL, []), *results])
        return body

    def _placed(self, rows: Any, axis: int, backwards: int) -> Any:
        """Return the rows in their order, along their axis."""
        node = self.node
        expr = node.graph.tensor(rows) if isinstance(rows, TensorValue) else node.emit(rows)
        axis = self._axis(axis, expr.ty.ndim, "scan_output_axes")
        expr = node.cast_shape(expr, [self.steps, *expr.ty.shape.values[1:]])
        expr = node.emit(relax.op.flip(expr, 0)) if backwards else expr
        order = list(range(1, expr.ty.ndim))
        order.insert(axis, 0)
        return expr if axis == 0 else node.emit(relax.op.permute_dims(expr, order))


def _size(dim: Any) -> TensorValue:
    elements = np.empty((), object)
    elements[()] = dim
    return elements_value(elements, "int64")


def _fresh_names(node: OnnxNode, body: Any) -> Callable[[str], str]:
    """Return a function that makes a name which neither the graph nor the body has."""
    used = {*node.scope, *captured.names(body), *captured.defined(body)}

    def fresh(text: str) -> str:
        name = next(name for k in range(len(used) + 1) if (name := f"{text}_{k}") not in used)
        used.add(name)
        return name

    return fresh
