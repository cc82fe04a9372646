"""ONNX models that are small, and that grow, recurse, lie or point elsewhere when they are read."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from .case import Case

#: Extents whose product is far beyond any memory, or beyond int64.
HUGE = ([10**12], [10**6, 10**6], [2**31, 2**31], [2**62, 2**62], [2**63 - 1, 2], [-(2**63)])
#: Names of symbolic dimensions that are code, keywords, names that TVM's scripts use, or nothing.
SYMBOLS = ("__import__('os').system('touch mark')", "lambda: 0", "T", "R", "n + n*", "n-n", "n//0",
           "(((((", "0", "-1", "n" * 100_000, "a\nb", "\x1b[31mred", "9" * 40, "n*n*n*n*n", "1//n",
           "n+-1", "class", "int64", "ü", "n\0m", '"); system("',
           "(" * 5000 + "n" + ")" * 5000)  # fmt: skip
PLACES = ("../../../../etc/passwd", "/etc/passwd", "/proc/kcore", "/proc/self/environ",
          "/dev/zero", "case0.onnx/../../ran", "file:///etc/passwd", "a\0b", "")  # fmt: skip


def cases(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield each kind once, then kinds at random, all with parameters by the seed."""
    for make in KINDS:
        yield _case(make, rng)
    for _ in range(count - len(KINDS)):
        yield _case(rng.choice(KINDS), rng)


def _case(make: Callable[[random.Random], tuple[str, bytes]], rng: random.Random) -> Case:
    name, content = make(rng)
    return Case(name, ".onnx", content)


def _floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, "float32")


def _ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, "int64")


def _model(
    nodes: list[Any], weights: dict[str, Any] | None = None, inputs: tuple[Any, ...] = (),
    output: str = "y", opset: int = 18, **more: Any,
) -> Any:  # fmt: skip
    initial = [w if isinstance(w, TensorProto) else numpy_helper.from_array(w, name)
               for name, w in (weights or {}).items()]  # fmt: skip
    y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", list(inputs), [y], initial)
    opsets = [helper.make_opsetid("", opset), *more.pop("opsets", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **more)


def _x(shape: Any = (2, 3), dtype: int = TensorProto.FLOAT, name: str = "x") -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def _node(op: str, inputs: list[str], outputs: list[str] | None = None, **attrs: Any) -> Any:
    name = attrs.pop("name", f"the {op.lower()}")
    return helper.make_node(op, inputs, outputs or ["y"], name, **attrs)


# Results of any size.


def _grown(rng: random.Random) -> tuple[str, bytes]:
    extents = rng.choice(HUGE)
    op = rng.choice(("ConstantOfShape", "Expand", "Tile", "Pad", "OneHot", "EyeLike", "Resize",
                     "Range", "Reshape", "CenterCropPad"))  # fmt: skip
    one = _floats(*[1] * len(extents))
    cases: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "Pad": ([_node("Pad", ["o", "p"])], {"o": one, "p": _ints(*[0] * len(extents), *extents)}),
        "OneHot": ([_node("OneHot", ["i", "d", "v"])],
                   {"i": _ints(0), "d": _ints(extents[0]), "v": np.array([0, 1], "float32")}),
        "EyeLike": ([_node("ConstantOfShape", ["s"], ["z"]), _node("EyeLike", ["z"])],
                    {"s": _ints(extents[0], 1)}),
        "Resize": ([_node("Resize", ["o", "", "", "s"])],
                   {"o": _floats(1, 1, *one.shape), "s": _ints(1, 1, *extents)}),
        "Range": ([_node("Range", ["a", "b", "c"])],
                  {"a": np.int64(0), "b": np.int64(extents[0]), "c": np.int64(1)}),
        "ConstantOfShape": ([_node(op, ["s"])], {"s": _ints(*extents)}),
    }  # fmt: skip
    nodes, weights = cases.get(op, ([_node(op, ["o", "s"])], {"o": one, "s": _ints(*extents)}))
    weights = {k: np.asarray(v) for k, v in weights.items()}
    if rng.random() < 0.5:  # its result is an element, so that it must be computed
        nodes[-1].output[0] = "big"
        nodes.append(_node("ReduceSum", ["big"], keepdims=0))
    return f"{op} to {extents}", _model(nodes, weights).SerializeToString()


def _doubled(rng: random.Random) -> tuple[str, bytes]:
    """Chains in which each node doubles its input; all inputs are constants."""
    op, steps = rng.choice(("Concat", "Tile", "Einsum", "Add", "Kron", "Gather", "Expand")), 30
    nodes: list[Any] = []
    weights: dict[str, Any] = {"v0": _floats(64), "two": _ints(2), "four": _ints(*[0] * 4)}
    for k in range(steps):
        source, target = f"v{k}", [f"v{k + 1}"]
        if op == "Concat":
            nodes.append(_node(op, [source, source], target, axis=0))
        elif op == "Tile":
            nodes.append(_node(op, [source, "two"], target))
        elif op == "Einsum":
            nodes.append(_node(op, [source, source], [f"e{k}"], equation="i,j->ij"))
            nodes.append(_node("Flatten", [f"e{k}"], [f"f{k}"], axis=0))
            nodes.append(_node("Squeeze", [f"f{k}"], target))
        elif op == "Gather":
            nodes.append(_node("Shape", [source], [f"s{k}"]))
            nodes.append(_node("ConstantOfShape", [f"s{k}"], [f"z{k}"],
                               value=numpy_helper.from_array(_ints(0))))  # fmt: skip
            nodes.append(_node("Gather", [source, f"z{k}"], [f"g{k}"], axis=0))
            nodes.append(_node("Concat", [f"g{k}", source], target, axis=0))
        elif op == "Expand":
            nodes.append(_node("Shape", [source], [f"s{k}"]))
            nodes.append(_node("Concat", ["two", f"s{k}"], [f"t{k}"], axis=0))
            nodes.append(_node("Expand", [source, f"t{k}"], target))
        else:
            nodes.append(_node("Add", [source, source], target))
            nodes.append(_node("Concat", target * 2, [f"w{k}"], axis=0))
            target[0] = f"v{k + 1}"
            nodes[-2].output[0] = f"a{k}"
            nodes[-1].input[:] = [f"a{k}"] * 2
            nodes[-1].output[0] = f"v{k + 1}"
    nodes.append(_node("Identity", [f"v{steps}"]))
    return f"{op} doubled {steps} times", _model(nodes, weights).SerializeToString()


def _einsum(rng: random.Random) -> tuple[str, bytes]:
    letters, n = "abcdefghijklmnop"[: rng.choice((6, 12))], rng.choice((16, 64, 256))
    equation = ",".join(letters) + "->" + rng.choice((letters, "", letters[::-1]))
    weights = {c: _floats(n) for c in letters}
    return f"Einsum of {len(letters)} vectors of {n}", _model(
        [_node("Einsum", list(letters), equation=equation)], weights
    ).SerializeToString()


def _costly(rng: random.Random) -> tuple[str, bytes]:
    """Small constants on which an operator of the reference implementation takes long."""
    n = 1 << 18
    big = np.linspace(0, 1, n, dtype="float32").reshape(1, 1, 512, 512)
    op, nodes, weights = rng.choice([
        ("MatMul", [_node("MatMul", ["a", "a"])], {"a": _floats(1000, 1000)}),
        ("Conv", [_node("Conv", ["b", "k"])], {"b": big, "k": _floats(64, 1, 61, 61)}),
        ("TopK", [_node("TopK", ["b", "k"], ["y", "i"])], {"b": big, "k": _ints(512)}),
        ("NonMaxSuppression", [_node("NonMaxSuppression", ["b", "s", "m"])],
         {"b": np.random.default_rng(0).random((1, 20000, 4), "float32"),
          "s": np.random.default_rng(0).random((1, 1, 20000), "float32"), "m": _ints(20000)}),
        ("Unique", [_node("Unique", ["b"])], {"b": big}),
        ("LRN", [_node("LRN", ["c"], size=100001)], {"c": _floats(1, 100_000, 1, 1)}),
        ("MaxPool", [_node("MaxPool", ["b"], kernel_shape=[255, 255])], {"b": big}),
        ("Det", [_node("Det", ["b"])], {"b": big}),
        ("CumSum", [_node("CumSum", ["b", "k"])], {"b": big, "k": np.array(3, "int64")}),
        ("DFT", [_node("DFT", ["d"], axis=1)], {"d": _floats(1, 4001, 100, 1)}),
        ("RNN", [_node("RNN", ["r", "w", "q"], hidden_size=1)],
         {"r": _floats(100_000, 1, 1), "w": _floats(1, 1, 1), "q": _floats(1, 1, 1)}),
    ])  # fmt: skip
    return f"{op} of constants", _model(nodes, weights).SerializeToString()


# Nesting and recursion.


def _branches(rng: random.Random) -> tuple[str, bytes]:
    """If in If, each with both branches alike or one of them: exponential, or deep."""
    depth, both = rng.choice((10, 20, 30)), rng.random() < 0.5
    known = rng.random() < 0.5
    inner = helper.make_graph([_node("Identity", ["x"], ["b"])], "b", [], [_x(None, name="b")])
    for _ in range(depth):
        leaf = inner if both else helper.make_graph(
            [_node("Neg", ["x"], ["b"])], "b", [], [_x(None, name="b")])  # fmt: skip
        node = _node("If", ["c"], ["b"], then_branch=inner, else_branch=leaf)
        if node.ByteSize() > 4_000_000:
            break
        inner = helper.make_graph([node], "b", [], [_x(None, name="b")])
    node = _node("If", ["c"], then_branch=inner, else_branch=inner)
    inputs = (_x(),) if known else (_x(), _x([], TensorProto.BOOL, "c"))
    weights = {"c": np.array(True)} if known else {}
    return f"{depth} branches, both alike: {both}", _model(
        [node], weights, inputs).SerializeToString()  # fmt: skip


def _loops(rng: random.Random) -> tuple[str, bytes]:
    """Loops of 10**9 trips, or nested loops whose trips multiply."""
    trips, depth = rng.choice(((10**9, 1), (2**63 - 1, 1), (200, 4), (1, 20), (-5, 1), (256, 2)))
    empty = rng.random() < 0.3
    body_nodes = [_node("Identity", ["c"], ["d"])]
    if not empty:
        body_nodes.append(_node("Add", ["v", "v"], ["w"]))
    outputs = [_x([], TensorProto.BOOL, "d"), _x(None, name="v" if empty else "w")]
    for level in range(depth):
        body = helper.make_graph(
            body_nodes, f"body{level}",
            [_x([], TensorProto.INT64, "i"), _x([], TensorProto.BOOL, "c"), _x(None, name="v")],
            outputs,
        )  # fmt: skip
        body_nodes = [_node("Identity", ["c"], ["d"]),
                      _node("Loop", ["m", "c", "v"], ["w"], body=body)]  # fmt: skip
        outputs = [_x([], TensorProto.BOOL, "d"), _x(None, name="w")]
    weights = {"m": np.array(trips, "int64"), "t": np.array(True)}
    if rng.random() < 0.3:
        weights["x"] = _floats(2, 3)
    nodes = [_node("Loop", ["m", "t", "x"], body=body)]
    return f"{depth} loops of {trips}", _model(nodes, weights, (
        () if "x" in weights else (_x(),))).SerializeToString()  # fmt: skip


def _function(name: str, nodes: list[Any]) -> Any:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["x"], ["y"], nodes, opsets)


def _call(name: str, source: str = "x", target: str = "y") -> Any:
    return helper.make_node(name, [source], [target], f"call {name}", domain="own")


def _functions(rng: random.Random) -> tuple[str, bytes]:
    """Functions of the model that call themselves, each other, or the one before twice."""
    kind = rng.choice(("itself", "each other", "twice", "in a branch", "shadows", "deep"))
    if kind == "itself":
        functions = [_function("f0", [_call("f0")])]
    elif kind == "each other":
        functions = [_function("f0", [_call("f1")]), _function("f1", [_call("f0")])]
    elif kind == "twice":
        functions = [_function("f30", [_node("Neg", ["x"])])] + [
            _function(f"f{k}", [_call(f"f{k + 1}", "x", "m"), _call(f"f{k + 1}", "m", "y")])
            for k in range(30)
        ]
    elif kind == "in a branch":
        graph = helper.make_graph([_call("f0", "x", "b")], "b", [], [_x(None, name="b")])
        functions = [_function("f0", [
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True))),
            _node("If", ["c"], then_branch=graph, else_branch=graph)])]  # fmt: skip
    elif kind == "deep":
        functions = [_function("f3000", [_node("Neg", ["x"])])] + [
            _function(f"f{k}", [_call(f"f{k + 1}")]) for k in range(3000)
        ]
    else:  # of ONNX's own domain, which calls the operator that it replaces
        functions = [_function("f0", [_node("Relu", ["x"])]), _function("Relu", [
            _node("Relu", ["x"])])]  # fmt: skip
        functions[1].domain = ""
    model = _model([_call("f0")], {}, (_x(),), opsets=[helper.make_opsetid("own", 1)],
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


def _deep(rng: random.Random) -> tuple[str, bytes]:
    """Graphs nested deeper than protobuf writes them."""
    depth = rng.choice((30, 90, 200, 10_000))
    graph = b""
    for _ in range(depth):
        attribute = _field(1, b"body") + _varint(20 << 3) + b"\x05" + _field(6, graph)
        node = _field(4, b"Loop") + _field(2, b"y") + _field(5, attribute)
        graph = _field(1, node) + _field(2, b"g")
    content = _varint(1 << 3) + b"\x09" + _field(7, graph) + _field(8, _varint(2 << 3) + b"\x12")
    return f"{depth} graphs in each other", content


# Names, sizes, and places.


def _named(rng: random.Random) -> tuple[str, bytes]:
    name = rng.choice(("a\x1b[31m\x00\nb", "Ω" * 1000, "y" * 10_000_000, "", " ", "../x", "T.int64",
                       "\u202eevil", "%s%n{0}", "main", "self"))  # fmt: skip
    op, where = rng.choice(("Relu", "Nope")), rng.randrange(5)
    names = [name if where == k else text for k, text in enumerate(("n", "x", "y", op, ""))]
    node = helper.make_node(names[3], [names[1]], [names[2]], names[0], domain=names[4])
    shape = ("n", 3) if rng.random() < 0.5 else (2, 3)
    nodes = [node]
    if rng.random() < 0.5:  # an error that proposes to make a size static
        nodes.append(_node("Reshape", [names[2], "s"], ["z"], name=names[0]))
    model = _model(nodes, {"s": _ints(7, 7)}, (_x(shape, name=names[1]),),
                   nodes[-1].output[0])  # fmt: skip
    return f"a name like {name[:8]!r} at {where}", model.SerializeToString()


def _sized(rng: random.Random) -> tuple[str, bytes]:
    """Inputs with sizes that are negative, huge, or overflow when multiplied."""
    shape = rng.choice(([-1, 3], [0, 0], [2**62, 3], [2**32, 2**32], [2**63 - 1], [1] * 10_000,
                        [-(2**63), 1], [2**40, 3]))  # fmt: skip
    op = rng.choice(("Relu", "Flatten", "Shape", "Size", "Softmax", "Concat", "Tile", "MatMul"))
    nodes = {
        "Concat": [_node(op, ["x", "x"], axis=0)], "MatMul": [_node(op, ["x", "x"])],
        "Tile": [_node("Shape", ["x"], ["s"]), _node(op, ["x", "s"])],
    }.get(op, [_node(op, ["x"])])  # fmt: skip
    return f"{op} of {shape[:4]}", _model(nodes, {}, (_x(shape),)).SerializeToString()


def _symbol(rng: random.Random) -> tuple[str, bytes]:
    symbol = rng.choice(SYMBOLS)
    op = rng.choice(("Relu", "Softmax", "Flatten", "Concat"))
    node = _node(op, ["x", "x"], axis=0) if op == "Concat" else _node(op, ["x"])
    return f"a dimension {symbol[:20]!r}", _model(
        [node], {}, (_x([symbol, 3]),)).SerializeToString()  # fmt: skip


def _external(rng: random.Random) -> tuple[str, bytes]:
    """Weights in other files, wherever a tensor may be."""
    place = rng.choice(PLACES)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4],
                         data_location=TensorProto.EXTERNAL)  # fmt: skip
    for key, value in (("location", place), ("offset", rng.choice(("0", "-4", "9" * 30, "x"))),
                       ("length", rng.choice(("16", "-1", str(2**62), "")))):  # fmt: skip
        tensor.external_data.add(key=key, value=value)
    where = rng.randrange(5)
    if where == 0:
        model = _model([_node("Neg", ["w"])], {"w": tensor})
    elif where == 1:
        model = _model([_node("Constant", [], value=tensor)])
    elif where == 2:
        model = _model([_node("Neg", ["w"])])
        sparse = model.graph.sparse_initializer.add(dims=[8])
        sparse.values.CopyFrom(tensor)
        sparse.indices.CopyFrom(numpy_helper.from_array(_ints(0, 1, 2, 3), "i"))
    elif where == 3:
        graph = helper.make_graph([_node("Neg", ["w"], ["b"])], "b", [], [_x(None, name="b")],
                                  [tensor])  # fmt: skip
        model = _model([_node("If", ["c"], then_branch=graph, else_branch=graph)],
                       {"c": np.array(True)})  # fmt: skip
    else:
        function = _function("f0", [helper.make_node("Constant", [], ["y"], value=tensor)])
        model = _model([_call("f0")], {}, (_x(),), opsets=[helper.make_opsetid("own", 1)],
                       functions=[function])  # fmt: skip
    return f"{where}: weights in {place!r}", model.SerializeToString()


def _sparse(rng: random.Random) -> tuple[str, bytes]:
    dims = rng.choice(([8], [2, 4], [10**12], [2**62, 4], [-8], [2**32, 2**32, 2]))
    indices = rng.choice((_ints(8), _ints(-1), _ints(3, 3), _ints(5, 2), _ints(2**62),
                          np.array([[1, 9]], "int64"), np.array([[0, -1]], "int64"),
                          _floats(1), _ints()))  # fmt: skip
    model = _model([_node("Neg", ["w"])])
    sparse = model.graph.sparse_initializer.add(dims=dims)
    sparse.values.CopyFrom(numpy_helper.from_array(_floats(rng.choice((1, 2))), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(indices, "i"))
    return f"sparse {indices.tolist()} of {dims}", model.SerializeToString()


# What contradicts itself.


def _attribute(rng: random.Random) -> tuple[str, bytes]:
    """An attribute of another type than the operator's schema has."""
    op, name = rng.choice((("Softmax", "axis"), ("Transpose", "perm"), ("Concat", "axis"),
                           ("Conv", "strides"), ("Gemm", "alpha"), ("LeakyRelu", "alpha"),
                           ("Cast", "to"), ("ReduceSum", "keepdims"), ("Flatten", "axis"),
                           ("AveragePool", "kernel_shape"), ("Elu", "nonsense")))  # fmt: skip
    value = rng.choice((1.5, [1.5, 0.5], "1", b"\xff\x00", ["0", "1"], [], 2**62, float("nan"),
                        [0, 0], numpy_helper.from_array(_ints(1)), [-(2**63)]))  # fmt: skip
    count = 2 if op in ("Conv", "Gemm") else 1
    node = _node(op, ["x"] * count)
    node.attribute.append(
        helper.make_attribute(name, value) if value != [] else AttributeProto(name=name)
    )
    if rng.random() < 0.2:
        node.attribute.append(helper.make_attribute(name, 0))
    return f"{name} of {op} is {str(value)[:20]!r}", _model(
        [node], {}, (_x((2, 3, 4, 4)),)).SerializeToString()  # fmt: skip


def _twice(rng: random.Random) -> tuple[str, bytes]:
    """Names that are defined more than once, or nowhere, or before themselves."""
    kind = rng.choice(("output", "input", "weight", "cycle", "nowhere", "function", "opset",
                       "attribute", "own input", "output of inputs"))  # fmt: skip
    nodes, inputs = [_node("Neg", ["x"], ["m"]), _node("Abs", ["m"])], [_x()]
    weights: dict[str, Any] = {}
    if kind == "output":
        nodes.insert(1, _node("Exp", ["x"], ["m"]))
    elif kind == "input":
        inputs.append(_x((3, 2)))
    elif kind == "cycle":
        nodes[0].input[0] = "y"
    elif kind == "nowhere":
        nodes[0].input[0] = "z"
    elif kind == "own input":
        nodes[0].output[0] = "x"
        nodes[1].input[0] = "x"
    elif kind == "output of inputs":
        nodes[1].output.append("y")
    model = _model(nodes, weights, tuple(inputs))
    if kind == "weight":
        for number in (1.0, 2.0):
            model.graph.initializer.append(
                numpy_helper.from_array(np.full((2, 3), number, "float32"), "w")
            )
        model.graph.node[0].input[0] = "w"
    if kind == "function":
        model.functions.extend([_function("f", [_node(op, ["x"])]) for op in ("Neg", "Exp")])
        model.graph.node[0].CopyFrom(_call("f", "x", "m"))
        model.opset_import.append(helper.make_opsetid("own", 1))
    if kind == "opset":
        model.opset_import.append(helper.make_opsetid("", 1))
    if kind == "attribute":
        model.graph.node[0].CopyFrom(_node("Softmax", ["x"], ["m"], axis=0))
        model.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
    return f"twice or not at all: {kind}", model.SerializeToString()


def _version(rng: random.Random) -> tuple[str, bytes]:
    opset = rng.choice((0, -1, 10**9, 2**62, 1, 6, 99))
    op = rng.choice(("Relu", "Softmax", "Add", "ReduceSum", "Clip", "Squeeze"))
    inputs = ["x"] * (2 if op == "Add" else 1)
    model = _model([_node(op, inputs)], {}, (_x((2, 3)),), opset=opset)
    model.ir_version = rng.choice((9, 9, 0, 2**40, -1))
    return f"{op} of opset {opset}, IR {model.ir_version}", model.SerializeToString()


def _arity(rng: random.Random) -> tuple[str, bytes]:
    """More or fewer inputs or outputs than the operator has."""
    op, count, results = rng.choice((("Relu", 0, 1), ("Relu", 2, 1), ("Add", 1, 1), ("Add", 3, 1),
        ("MatMul", 1, 1), ("Softmax", 1, 3), ("Concat", 0, 1), ("LSTM", 1, 3), ("If", 1, 1),
        ("Where", 2, 1), ("Conv", 1, 1), ("Split", 1, 0), ("Relu", 10_000, 1)))  # fmt: skip
    node = helper.make_node(op, ["x"] * count, ["y", *(f"r{k}" for k in range(1, results))], "n")
    return f"{op} of {count} inputs", _model([node], {}, (_x(),)).SerializeToString()


KINDS: tuple[Callable[[random.Random], tuple[str, bytes]], ...] = (
    _grown, _doubled, _einsum, _costly, _branches, _loops, _functions, _deep, _named, _sized,
    _symbol, _external, _sparse, _attribute, _twice, _version, _arity,
)  # fmt: skip
