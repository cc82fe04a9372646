"""If and Loop: folded, unrolled, a conditional on data, or a recursive function."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

from ...checks.error import shortened
from ..attributes import array
from ..conversion.converter_table import converts
from ..onnx_node import OnnxNode, dims_of
from ..scalars import is_expr, size
from ..values import ListValue, NotConvertible, TensorValue, constant

#: Limit on the iterations of a loop that is unrolled.
ITERATIONS = 256


@converts("If")
def conditional(node: OnnxNode) -> list[Any]:
    """Return the branch that is taken, or both under a condition that depends on data."""
    value = node.value(0)
    graphs = [node.attr("then_branch"), node.attr("else_branch")]
    for graph in graphs:
        _check_weights(node, graph)
    if value.is_constant and value.elements is not None:
        return node.graph.run(graphs[0 if value.elements.reshape(-1)[0] else 1], [], node.scope)
    if _squeezes(node, value, graphs[0]):  # the converter of Squeeze checks the size at run time
        return node.graph.run(graphs[0], [], node.scope)
    condition = node.tensor(0)
    if condition.ty.ndim:
        condition = node.emit(relax.op.reshape(condition, ()))
    return node.graph.branches(condition, graphs, node.scope)


def _check_weights(node: OnnxNode, graph: Any) -> None:
    """Refuse a weight of a branch that hides another value.

    ONNX rules it out. ONNX Runtime takes the inner one, but the outer one if it inlines the branch.
    """
    for tensor in graph.initializer:
        outer = node.scope.get(tensor.name)
        if outer is None:
            continue
        same = isinstance(outer, TensorValue) and outer.is_constant and outer.elements is not None
        if not same or not np.array_equal(outer.elements, array(tensor)):
            name = shortened(tensor.name, 80)
            node.refuse(f"the weight '{name}' of the branch '{shortened(graph.name, 80)}' has the "
                        "name of another value outside, expected its own: rename it")  # fmt: skip


def _squeezes(node: OnnxNode, condition: TensorValue, graph: Any) -> bool:
    """Return whether a branch drops a dimension and is taken if its symbolic size is 1.

    Exporters write so where a dimension is dropped "if it can be". The other branch has another
    rank, which the nodes that follow do not take.
    """
    if condition.elements is None or [n.op_type for n in graph.node if n.op_type != "Constant"] != [
        "Squeeze"
    ]:
        return False
    test = condition.elements.reshape(-1)[0]
    if not isinstance(test, tirx.EQ):
        return False
    squeeze = next(n for n in graph.node if n.op_type == "Squeeze")
    data = node.scope.get(squeeze.input[0])
    if not isinstance(data, TensorValue) or data.expr is None:
        return False
    sizes = [d for d in dims_of(data.expr) if is_expr(d)]
    sides = [size(test.a), size(test.b)]
    return 1 in [s for s in sides if isinstance(s, int)] and any(
        node.arithmetic.equal(d, s) for d in sizes for s in sides if is_expr(s)
    )


class _Varies(Exception):
    """How often a loop runs is not constant; `dims` are the sizes that decide it."""

    def __init__(self, dims: list[Any]) -> None:
        super().__init__()
        self.dims = dims


@converts("Loop")
def loop(node: OnnxNode) -> list[Any]:
    """Unroll a loop of a few iterations; others become a recursive function."""
    try:
        return _unrolled(node)
    except _Varies as error:
        try:
            return node.graph.recursion(node)
        except NotConvertible as refused:
            text = f"a loop whose number of iterations is not constant: {refused}"
            node.refuse(text, *error.dims, *refused.dims)


def _unrolled(node: OnnxNode) -> list[Any]:
    body, count = node.attr("body"), _trips(node)
    alive: Any = node.inputs[1] if node.has(1) else constant(np.array(True))
    carried = list(node.inputs[2:])
    scanned: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while _holds(alive) and (count is None or step < count):
        if step >= ITERATIONS:
            node.refuse(f"a loop without a count that runs more than {ITERATIONS} times")
        inputs = [constant(np.array(step, "int64")), alive, *carried]
        alive, *rest = node.graph.run(body, inputs, node.scope)
        carried = rest[: len(carried)]
        for items, value in zip(scanned, rest[len(carried) :], strict=True):
            items.append(value)
        step += 1
    return [*carried, *(_stacked(node, items) for items in scanned)]


def _trips(node: OnnxNode) -> int | None:
    if not node.has(0):
        return None
    value = node.value(0)
    if not value.is_constant or value.elements is None:
        raise _Varies([] if value.elements is None else list(value.elements.reshape(-1)))
    count = int(value.elements.reshape(-1)[0])
    if count > ITERATIONS:
        raise _Varies([])
    return count


def _holds(alive: Any) -> bool:
    if not isinstance(alive, TensorValue) or not alive.is_constant or alive.elements is None:
        raise _Varies([] if alive.elements is None else list(alive.elements.reshape(-1)))
    return bool(alive.elements.reshape(-1)[0])


def _stacked(node: OnnxNode, items: list[Any]) -> Any:
    if not items:
        node.refuse("a loop without iterations whose results are collected")
    if any(isinstance(item, ListValue) for item in items):
        node.refuse("a loop that collects sequences, expected tensors")
    if all(item.is_constant for item in items):
        return constant(np.stack([item.elements for item in items]))
    parts = [node.emit(relax.op.expand_dims(node.graph.tensor(item), 0)) for item in items]
    return parts[0] if len(parts) == 1 else relax.op.concat(parts, 0)
