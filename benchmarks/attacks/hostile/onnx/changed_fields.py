"""ONNX models with fields changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from ..formats.case import Case, damaged

STRINGS = ("", "x", "../../etc/passwd", "/etc/passwd", "a\x1b[31m\nb", "Ω" * 3, "y" * 100_000)
NUMBERS = (0, -1, 1, 7, 2**31, 2**62, -(2**63))


def model(shape: tuple[Any, ...] = (1, 3, 8, 8)) -> Any:
    """Return a model with a convolution, a shape, a reshape and an addition."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype("float32"), "w")
    target = numpy_helper.from_array(np.array([1, -1], "int64"), "t")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Reshape", ["r", "t"], ["f"]),
        helper.make_node("Add", ["f", "f"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [weight, target])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def cases(rng: random.Random, mark: Path, count: int) -> Iterator[Case]:
    """Yield hand-written models, then random changes of fields and bytes."""
    yield from _external(mark)
    yield from _large()
    for k in range(count):
        if k % 3 == 0:
            yield Case("bytes", ".onnx", damaged(rng, model().SerializeToString()))
            continue
        changed = model()
        names = [_change(rng, changed) for _ in range(rng.choice((1, 1, 2, 4)))]
        yield Case(", ".join(names), ".onnx", changed.SerializeToString())


def _change(rng: random.Random, message: Any) -> str:
    """Set a random field of a message to another value, remove it or duplicate it."""
    where = message
    while True:
        fields = where.ListFields()
        if not fields:
            break
        field, value = rng.choice(fields)
        repeated = hasattr(value, "append") or hasattr(value, "add")
        inner = rng.choice(value) if repeated else value
        if hasattr(inner, "ListFields") and rng.random() < 0.85:
            where = inner
            continue
        if repeated:
            del value[rng.randrange(len(value)) :]
        elif isinstance(inner, str):
            setattr(where, field.name, rng.choice(STRINGS))
        elif isinstance(inner, bool | int) and rng.random() < 0.8:
            _set(where, field.name, rng.choice(NUMBERS))
        else:
            where.ClearField(field.name)
        return f"{type(where).__name__}.{field.name}"
    return type(where).__name__


def _set(where: Any, name: str, value: int) -> None:
    try:
        setattr(where, name, value)
    except ValueError:  # of an enumeration, or too large
        where.ClearField(name)


def _external(mark: Path) -> Iterator[Case]:
    for place in (
        "/etc/passwd",
        "../../../../etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        str(mark),
        ".",
    ):
        for length in (None, 4, 2**40, -1):
            changed = model()
            tensor = changed.graph.initializer[0]
            external_data_helper.set_external_data(tensor, place, offset=0, length=length)
            tensor.ClearField("raw_data")
            yield Case(f"weights of {place}", ".onnx", changed.SerializeToString())


def _large() -> Iterator[Case]:
    for shape in ((2**62, 3, 8, 8), (2**31, 2**31, 2**31, 2**31), (0, 3, 8, 8), (-1, 3, 8, 8)):
        yield Case(f"input of {shape}", ".onnx", model(shape).SerializeToString())
    for extents in ([2**40], [2**20, 2**20], [2**62, 2**62], [-5], [0]):
        for op in ("ConstantOfShape", "Expand", "Tile"):
            size = numpy_helper.from_array(np.array(extents, "int64"), "s")
            ones = numpy_helper.from_array(np.ones(1, "float32"), "o")
            inputs = ["s"] if op == "ConstantOfShape" else ["o", "s"]
            nodes = [helper.make_node(op, inputs, ["y"])]
            y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
            graph = helper.make_graph(nodes, "g", [], [y], [size, ones])
            yield Case(f"{op} to {extents}", ".onnx", helper.make_model(graph).SerializeToString())
    inner = model().graph
    for _ in range(60):
        node = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
        if node.ByteSize() > 4_000_000:
            break
        x = helper.make_tensor_value_info("x", TensorProto.BOOL, [])
        inner = helper.make_graph([node], "g", [x], [inner.output[0]])
    yield Case("nested branches", ".onnx", helper.make_model(inner).SerializeToString())
    for domain in ("com.microsoft", "ai.onnx.ml", "custom"):
        changed = model()
        changed.graph.node[1].domain = domain
        yield Case(f"operator of {domain}", ".onnx", changed.SerializeToString())
    changed = model()
    changed.graph.node[0].input[0] = "y"
    yield Case("a cycle", ".onnx", changed.SerializeToString())
