"""ONNX models whose constants grow, or take long to fold."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import numpy_helper

from .parts import ints, ones, op_node, small_model

#: Extents whose product is far beyond any memory, or beyond int64.
HUGE = ([10**12], [10**6, 10**6], [2**31, 2**31], [2**62, 2**62], [2**63 - 1, 2], [-(2**63)])


def grown(rng: random.Random) -> tuple[str, bytes]:
    extents = rng.choice(HUGE)
    op = rng.choice(("ConstantOfShape", "Expand", "Tile", "Pad", "OneHot", "EyeLike", "Resize",
                     "Range", "Reshape", "CenterCropPad"))  # fmt: skip
    one = ones(*[1] * len(extents))
    cases: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "Pad": ([op_node("Pad", ["o", "p"])], {"o": one, "p": ints(*[0] * len(extents), *extents)}),
        "OneHot": ([op_node("OneHot", ["i", "d", "v"])],
                   {"i": ints(0), "d": ints(extents[0]), "v": np.array([0, 1], "float32")}),
        "EyeLike": ([op_node("ConstantOfShape", ["s"], ["z"]), op_node("EyeLike", ["z"])],
                    {"s": ints(extents[0], 1)}),
        "Resize": ([op_node("Resize", ["o", "", "", "s"])],
                   {"o": ones(1, 1, *one.shape), "s": ints(1, 1, *extents)}),
        "Range": ([op_node("Range", ["a", "b", "c"])],
                  {"a": np.int64(0), "b": np.int64(extents[0]), "c": np.int64(1)}),
        "ConstantOfShape": ([op_node(op, ["s"])], {"s": ints(*extents)}),
    }  # fmt: skip
    nodes, weights = cases.get(op, ([op_node(op, ["o", "s"])], {"o": one, "s": ints(*extents)}))
    weights = {k: np.asarray(v) for k, v in weights.items()}
    if rng.random() < 0.5:  # its result is an element, so that it must be computed
        nodes[-1].output[0] = "big"
        nodes.append(op_node("ReduceSum", ["big"], keepdims=0))
    return f"{op} to {extents}", small_model(nodes, weights).SerializeToString()


def doubled(rng: random.Random) -> tuple[str, bytes]:
    """Chains in which each node doubles its input; all inputs are constants."""
    op, steps = rng.choice(("Concat", "Tile", "Einsum", "Add", "Kron", "Gather", "Expand")), 30
    nodes: list[Any] = []
    weights: dict[str, Any] = {"v0": ones(64), "two": ints(2), "four": ints(*[0] * 4)}
    for k in range(steps):
        source, target = f"v{k}", [f"v{k + 1}"]
        if op == "Concat":
            nodes.append(op_node(op, [source, source], target, axis=0))
        elif op == "Tile":
            nodes.append(op_node(op, [source, "two"], target))
        elif op == "Einsum":
            nodes.append(op_node(op, [source, source], [f"e{k}"], equation="i,j->ij"))
            nodes.append(op_node("Flatten", [f"e{k}"], [f"f{k}"], axis=0))
            nodes.append(op_node("Squeeze", [f"f{k}"], target))
        elif op == "Gather":
            nodes.append(op_node("Shape", [source], [f"s{k}"]))
            nodes.append(op_node("ConstantOfShape", [f"s{k}"], [f"z{k}"],
                               value=numpy_helper.from_array(ints(0))))  # fmt: skip
            nodes.append(op_node("Gather", [source, f"z{k}"], [f"g{k}"], axis=0))
            nodes.append(op_node("Concat", [f"g{k}", source], target, axis=0))
        elif op == "Expand":
            nodes.append(op_node("Shape", [source], [f"s{k}"]))
            nodes.append(op_node("Concat", ["two", f"s{k}"], [f"t{k}"], axis=0))
            nodes.append(op_node("Expand", [source, f"t{k}"], target))
        else:
            nodes.append(op_node("Add", [source, source], target))
            nodes.append(op_node("Concat", target * 2, [f"w{k}"], axis=0))
            target[0] = f"v{k + 1}"
            nodes[-2].output[0] = f"a{k}"
            nodes[-1].input[:] = [f"a{k}"] * 2
            nodes[-1].output[0] = f"v{k + 1}"
    nodes.append(op_node("Identity", [f"v{steps}"]))
    return f"{op} doubled {steps} times", small_model(nodes, weights).SerializeToString()


def outer_products(rng: random.Random) -> tuple[str, bytes]:
    letters, n = "abcdefghijklmnop"[: rng.choice((6, 12))], rng.choice((16, 64, 256))
    equation = ",".join(letters) + "->" + rng.choice((letters, "", letters[::-1]))
    weights = {c: ones(n) for c in letters}
    return f"Einsum of {len(letters)} vectors of {n}", small_model(
        [op_node("Einsum", list(letters), equation=equation)], weights
    ).SerializeToString()


def costly(rng: random.Random) -> tuple[str, bytes]:
    """Small constants on which an operator of the reference implementation takes long."""
    n = 1 << 18
    big = np.linspace(0, 1, n, dtype="float32").reshape(1, 1, 512, 512)
    op, nodes, weights = rng.choice([
        ("MatMul", [op_node("MatMul", ["a", "a"])], {"a": ones(1000, 1000)}),
        ("Conv", [op_node("Conv", ["b", "k"])], {"b": big, "k": ones(64, 1, 61, 61)}),
        ("TopK", [op_node("TopK", ["b", "k"], ["y", "i"])], {"b": big, "k": ints(512)}),
        ("NonMaxSuppression", [op_node("NonMaxSuppression", ["b", "s", "m"])],
         {"b": np.random.default_rng(0).random((1, 20000, 4), "float32"),
          "s": np.random.default_rng(0).random((1, 1, 20000), "float32"), "m": ints(20000)}),
        ("Unique", [op_node("Unique", ["b"])], {"b": big}),
        ("LRN", [op_node("LRN", ["c"], size=100001)], {"c": ones(1, 100_000, 1, 1)}),
        ("MaxPool", [op_node("MaxPool", ["b"], kernel_shape=[255, 255])], {"b": big}),
        ("Det", [op_node("Det", ["b"])], {"b": big}),
        ("CumSum", [op_node("CumSum", ["b", "k"])], {"b": big, "k": np.array(3, "int64")}),
        ("DFT", [op_node("DFT", ["d"], axis=1)], {"d": ones(1, 4001, 100, 1)}),
        ("RNN", [op_node("RNN", ["r", "w", "q"], hidden_size=1)],
         {"r": ones(100_000, 1, 1), "w": ones(1, 1, 1), "q": ones(1, 1, 1)}),
    ])  # fmt: skip
    return f"{op} of constants", small_model(nodes, weights).SerializeToString()


KINDS = (grown, doubled, outer_products, costly)
