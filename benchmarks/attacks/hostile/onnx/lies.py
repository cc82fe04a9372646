"""ONNX models that contradict themselves, or ONNX."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import AttributeProto, helper, numpy_helper

from .parts import declared, ints, op_node, own_call, own_function, small_model


def wrong_attribute(rng: random.Random) -> tuple[str, bytes]:
    """An attribute of another type than the operator's schema has."""
    op, name = rng.choice((("Softmax", "axis"), ("Transpose", "perm"), ("Concat", "axis"),
                           ("Conv", "strides"), ("Gemm", "alpha"), ("LeakyRelu", "alpha"),
                           ("Cast", "to"), ("ReduceSum", "keepdims"), ("Flatten", "axis"),
                           ("AveragePool", "kernel_shape"), ("Elu", "nonsense")))  # fmt: skip
    value = rng.choice((1.5, [1.5, 0.5], "1", b"\xff\x00", ["0", "1"], [], 2**62, float("nan"),
                        [0, 0], numpy_helper.from_array(ints(1)), [-(2**63)]))  # fmt: skip
    count = 2 if op in ("Conv", "Gemm") else 1
    node = op_node(op, ["x"] * count)
    node.attribute.append(
        helper.make_attribute(name, value) if value != [] else AttributeProto(name=name)
    )
    if rng.random() < 0.2:
        node.attribute.append(helper.make_attribute(name, 0))
    return f"{name} of {op} is {str(value)[:20]!r}", small_model(
        [node], {}, (declared((2, 3, 4, 4)),)).SerializeToString()  # fmt: skip


def defined_twice(rng: random.Random) -> tuple[str, bytes]:
    """Names that are defined more than once, or nowhere, or before themselves."""
    kind = rng.choice(("output", "input", "weight", "cycle", "nowhere", "function", "opset",
                       "attribute", "own input", "output of inputs"))  # fmt: skip
    nodes, inputs = [op_node("Neg", ["x"], ["m"]), op_node("Abs", ["m"])], [declared()]
    weights: dict[str, Any] = {}
    if kind == "output":
        nodes.insert(1, op_node("Exp", ["x"], ["m"]))
    elif kind == "input":
        inputs.append(declared((3, 2)))
    elif kind == "cycle":
        nodes[0].input[0] = "y"
    elif kind == "nowhere":
        nodes[0].input[0] = "z"
    elif kind == "own input":
        nodes[0].output[0] = "x"
        nodes[1].input[0] = "x"
    elif kind == "output of inputs":
        nodes[1].output.append("y")
    model = small_model(nodes, weights, tuple(inputs))
    if kind == "weight":
        for number in (1.0, 2.0):
            model.graph.initializer.append(
                numpy_helper.from_array(np.full((2, 3), number, "float32"), "w")
            )
        model.graph.node[0].input[0] = "w"
    if kind == "function":
        model.functions.extend([own_function("f", [op_node(op, ["x"])]) for op in ("Neg", "Exp")])
        model.graph.node[0].CopyFrom(own_call("f", "x", "m"))
        model.opset_import.append(helper.make_opsetid("own", 1))
    if kind == "opset":
        model.opset_import.append(helper.make_opsetid("", 1))
    if kind == "attribute":
        model.graph.node[0].CopyFrom(op_node("Softmax", ["x"], ["m"], axis=0))
        model.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
    return f"twice or not at all: {kind}", model.SerializeToString()


def odd_version(rng: random.Random) -> tuple[str, bytes]:
    opset = rng.choice((0, -1, 10**9, 2**62, 1, 6, 99))
    op = rng.choice(("Relu", "Softmax", "Add", "ReduceSum", "Clip", "Squeeze"))
    inputs = ["x"] * (2 if op == "Add" else 1)
    model = small_model([op_node(op, inputs)], {}, (declared((2, 3)),), opset=opset)
    model.ir_version = rng.choice((9, 9, 0, 2**40, -1))
    return f"{op} of opset {opset}, IR {model.ir_version}", model.SerializeToString()


def wrong_arity(rng: random.Random) -> tuple[str, bytes]:
    """More or fewer inputs or outputs than the operator has."""
    op, count, results = rng.choice((("Relu", 0, 1), ("Relu", 2, 1), ("Add", 1, 1), ("Add", 3, 1),
        ("MatMul", 1, 1), ("Softmax", 1, 3), ("Concat", 0, 1), ("LSTM", 1, 3), ("If", 1, 1),
        ("Where", 2, 1), ("Conv", 1, 1), ("Split", 1, 0), ("Relu", 10_000, 1)))  # fmt: skip
    node = helper.make_node(op, ["x"] * count, ["y", *(f"r{k}" for k in range(1, results))], "n")
    return f"{op} of {count} inputs", small_model([node], {}, (declared(),)).SerializeToString()


KINDS = (wrong_attribute, defined_twice, odd_version, wrong_arity)
