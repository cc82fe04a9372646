"""ONNX models that nest, repeat and call themselves."""

from __future__ import annotations

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .parts import declared, ones, op_node, own_call, own_function, small_model


def branches(rng: random.Random) -> tuple[str, bytes]:
    """If in If, each with both branches alike or one of them: exponential, or deep."""
    depth, both = rng.choice((10, 20, 30)), rng.random() < 0.5
    known = rng.random() < 0.5
    inner = helper.make_graph(
        [op_node("Identity", ["x"], ["b"])], "b", [], [declared(None, name="b")]
    )
    for _ in range(depth):
        leaf = inner if both else helper.make_graph(
            [op_node("Neg", ["x"], ["b"])], "b", [], [declared(None, name="b")])  # fmt: skip
        node = op_node("If", ["c"], ["b"], then_branch=inner, else_branch=leaf)
        if node.ByteSize() > 4_000_000:
            break
        inner = helper.make_graph([node], "b", [], [declared(None, name="b")])
    node = op_node("If", ["c"], then_branch=inner, else_branch=inner)
    inputs = (declared(),) if known else (declared(), declared([], TensorProto.BOOL, "c"))
    weights = {"c": np.array(True)} if known else {}
    return f"{depth} branches, both alike: {both}", small_model(
        [node], weights, inputs).SerializeToString()  # fmt: skip


def loops(rng: random.Random) -> tuple[str, bytes]:
    """Loops of 10**9 trips, or nested loops whose trips multiply."""
    trips, depth = rng.choice(((10**9, 1), (2**63 - 1, 1), (200, 4), (1, 20), (-5, 1), (256, 2)))
    empty = rng.random() < 0.3
    body_nodes = [op_node("Identity", ["c"], ["d"])]
    if not empty:
        body_nodes.append(op_node("Add", ["v", "v"], ["w"]))
    outputs = [declared([], TensorProto.BOOL, "d"), declared(None, name="v" if empty else "w")]
    for level in range(depth):
        body = helper.make_graph(
            body_nodes,
            f"body{level}",
            [
                declared([], TensorProto.INT64, "i"),
                declared([], TensorProto.BOOL, "c"),
                declared(None, name="v"),
            ],
            outputs,
        )
        body_nodes = [op_node("Identity", ["c"], ["d"]),
                      op_node("Loop", ["m", "c", "v"], ["w"], body=body)]  # fmt: skip
        outputs = [declared([], TensorProto.BOOL, "d"), declared(None, name="w")]
    weights = {"m": np.array(trips, "int64"), "t": np.array(True)}
    if rng.random() < 0.3:
        weights["x"] = ones(2, 3)
    nodes = [op_node("Loop", ["m", "t", "x"], body=body)]
    return f"{depth} loops of {trips}", small_model(nodes, weights, (
        () if "x" in weights else (declared(),))).SerializeToString()  # fmt: skip


def functions_in_functions(rng: random.Random) -> tuple[str, bytes]:
    """Functions of the model that call themselves, each other, or the one before twice."""
    kind = rng.choice(("itself", "each other", "twice", "in a branch", "shadows", "deep"))
    if kind == "itself":
        functions = [own_function("f0", [own_call("f0")])]
    elif kind == "each other":
        functions = [own_function("f0", [own_call("f1")]), own_function("f1", [own_call("f0")])]
    elif kind == "twice":
        functions = [own_function("f30", [op_node("Neg", ["x"])])] + [
            own_function(
                f"f{k}", [own_call(f"f{k + 1}", "x", "m"), own_call(f"f{k + 1}", "m", "y")]
            )
            for k in range(30)
        ]
    elif kind == "in a branch":
        graph = helper.make_graph([own_call("f0", "x", "b")], "b", [], [declared(None, name="b")])
        functions = [own_function("f0", [
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
            op_node("If", ["c"], then_branch=graph, else_branch=graph)])]  # fmt: skip
    elif kind == "deep":
        functions = [own_function("f3000", [op_node("Neg", ["x"])])] + [
            own_function(f"f{k}", [own_call(f"f{k + 1}")]) for k in range(3000)
        ]
    else:  # of ONNX's own domain, which calls the operator that it replaces
        functions = [own_function("f0", [op_node("Relu", ["x"])]), own_function("Relu", [
            op_node("Relu", ["x"])])]  # fmt: skip
        functions[1].domain = ""
    model = small_model([own_call("f0")], {}, (declared(),), opsets=[helper.make_opsetid("own", 1)],
                   functions=functions)  # fmt: skip
    return f"functions that call {kind}", model.SerializeToString()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def nested(rng: random.Random) -> tuple[str, bytes]:
    """Graphs nested deeper than protobuf writes them."""
    depth = rng.choice((30, 90, 200, 10_000))
    graph = b""
    for _ in range(depth):
        attribute = _field(1, b"body") + _varint(20 << 3) + b"\x05" + _field(6, graph)
        node = _field(4, b"Loop") + _field(2, b"y") + _field(5, attribute)
        graph = _field(1, node) + _field(2, b"g")
    content = _varint(1 << 3) + b"\x09" + _field(7, graph) + _field(8, _varint(2 << 3) + b"\x12")
    return f"{depth} graphs in each other", content


KINDS = (branches, loops, functions_in_functions, nested)
