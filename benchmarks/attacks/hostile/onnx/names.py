"""ONNX models with hostile names, sizes, and places of weights."""

from __future__ import annotations

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .parts import declared, ints, ones, op_node, own_call, own_function, small_model

#: Names of symbolic dimensions that are code, keywords, names that TVM's scripts use, or nothing.
SYMBOLS = ("__import__('os').system('touch mark')", "lambda: 0", "T", "R", "n + n*", "n-n", "n//0",
           "(((((", "0", "-1", "n" * 100_000, "a\nb", "\x1b[31mred", "9" * 40, "n*n*n*n*n", "1//n",
           "n+-1", "class", "int64", "ü", "n\0m", '"); system("',
           "(" * 5000 + "n" + ")" * 5000)  # fmt: skip
PLACES = ("../../../../etc/passwd", "/etc/passwd", "/proc/kcore", "/proc/self/environ",
          "/dev/zero", "case0.onnx/../../ran", "file:///etc/passwd", "a\0b", "")  # fmt: skip


def odd_name(rng: random.Random) -> tuple[str, bytes]:
    name = rng.choice(("a\x1b[31m\x00\nb", "Ω" * 1000, "y" * 10_000_000, "", " ", "../x", "T.int64",
                       "\u202eevil", "%s%n{0}", "main", "self"))  # fmt: skip
    op, where = rng.choice(("Relu", "Nope")), rng.randrange(5)
    names = [name if where == k else text for k, text in enumerate(("n", "x", "y", op, ""))]
    node = helper.make_node(names[3], [names[1]], [names[2]], names[0], domain=names[4])
    shape = ("n", 3) if rng.random() < 0.5 else (2, 3)
    nodes = [node]
    if rng.random() < 0.5:  # an error that proposes to make a size static
        nodes.append(op_node("Reshape", [names[2], "s"], ["z"], name=names[0]))
    model = small_model(nodes, {"s": ints(7, 7)}, (declared(shape, name=names[1]),),
                   nodes[-1].output[0])  # fmt: skip
    return f"a name like {name[:8]!r} at {where}", model.SerializeToString()


def odd_sizes(rng: random.Random) -> tuple[str, bytes]:
    """Inputs with sizes that are negative, huge, or overflow when multiplied."""
    shape = rng.choice(([-1, 3], [0, 0], [2**62, 3], [2**32, 2**32], [2**63 - 1], [1] * 10_000,
                        [-(2**63), 1], [2**40, 3]))  # fmt: skip
    op = rng.choice(("Relu", "Flatten", "Shape", "Size", "Softmax", "Concat", "Tile", "MatMul"))
    nodes = {
        "Concat": [op_node(op, ["x", "x"], axis=0)], "MatMul": [op_node(op, ["x", "x"])],
        "Tile": [op_node("Shape", ["x"], ["s"]), op_node(op, ["x", "s"])],
    }.get(op, [op_node(op, ["x"])])  # fmt: skip
    return f"{op} of {shape[:4]}", small_model(nodes, {}, (declared(shape),)).SerializeToString()


def odd_symbol(rng: random.Random) -> tuple[str, bytes]:
    symbol = rng.choice(SYMBOLS)
    op = rng.choice(("Relu", "Softmax", "Flatten", "Concat"))
    node = op_node(op, ["x", "x"], axis=0) if op == "Concat" else op_node(op, ["x"])
    return f"a dimension {symbol[:20]!r}", small_model(
        [node], {}, (declared([symbol, 3]),)).SerializeToString()  # fmt: skip


def elsewhere(rng: random.Random) -> tuple[str, bytes]:
    """Weights in other files, wherever a tensor may be."""
    place = rng.choice(PLACES)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4],
                         data_location=TensorProto.EXTERNAL)  # fmt: skip
    for key, value in (("location", place), ("offset", rng.choice(("0", "-4", "9" * 30, "x"))),
                       ("length", rng.choice(("16", "-1", str(2**62), "")))):  # fmt: skip
        tensor.external_data.add(key=key, value=value)
    where = rng.randrange(5)
    if where == 0:
        model = small_model([op_node("Neg", ["w"])], {"w": tensor})
    elif where == 1:
        model = small_model([op_node("Constant", [], value=tensor)])
    elif where == 2:
        model = small_model([op_node("Neg", ["w"])])
        sparse = model.graph.sparse_initializer.add(dims=[8])
        sparse.values.CopyFrom(tensor)
        sparse.indices.CopyFrom(numpy_helper.from_array(ints(0, 1, 2, 3), "i"))
    elif where == 3:
        graph = helper.make_graph(
            [op_node("Neg", ["w"], ["b"])], "b", [], [declared(None, name="b")], [tensor]
        )
        model = small_model([op_node("If", ["c"], then_branch=graph, else_branch=graph)],
                       {"c": np.array(True)})  # fmt: skip
    else:
        function = own_function("f0", [helper.make_node("Constant", [], ["y"], value=tensor)])
        model = small_model(
            [own_call("f0")],
            {},
            (declared(),),
            opsets=[helper.make_opsetid("own", 1)],
            functions=[function],
        )
    return f"{where}: weights in {place!r}", model.SerializeToString()


def sparse(rng: random.Random) -> tuple[str, bytes]:
    dims = rng.choice(([8], [2, 4], [10**12], [2**62, 4], [-8], [2**32, 2**32, 2]))
    indices = rng.choice((ints(8), ints(-1), ints(3, 3), ints(5, 2), ints(2**62),
                          np.array([[1, 9]], "int64"), np.array([[0, -1]], "int64"),
                          ones(1), ints()))  # fmt: skip
    model = small_model([op_node("Neg", ["w"])])
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(numpy_helper.from_array(ones(rng.choice((1, 2))), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(indices, "i"))
    return f"sparse {indices.tolist()} of {dims}", model.SerializeToString()


KINDS = (odd_name, odd_sizes, odd_symbol, elsewhere, sparse)
