"""Sizes that the graph computes, branches, and nodes of constants that importers fold."""

from __future__ import annotations

import numpy as np

from ..graphs.graph import Graph, Value
from . import elementwise, reductions, shaping


def sizes(g: Graph) -> None:
    """A tensor reshaped, expanded, sliced or filled by sizes that are computed from another."""
    rng, x = g.rng, g.pick("fiub")
    if x is None or not x.rank:
        return
    attrs = {"start": rng.randrange(x.rank)} if g.opset >= 15 and rng.random() < 0.2 else {}
    shape = g.add("Shape", [x], **attrs)
    if shape is None or attrs or rng.random() < 0.1:
        return
    form = rng.choice(("reshape", "reshape", "fill", "expand", "slice", "range", "number"))
    if form == "reshape":
        _reshaped(g, x, shape)
    elif form == "fill":
        from onnx import numpy_helper

        element = np.array([rng.choice((0, 1, 2))], rng.choice(("float32", "int64", "bool")))
        own = {"value": numpy_helper.from_array(element)} if rng.random() < 0.8 else {}
        filled = g.add("ConstantOfShape", [shape], **own)
        if filled is not None and filled.dtype == x.dtype:
            g.add("Add", [x, filled])
    elif form == "expand":
        g.add("Expand", [g.random_constant(rng.choice(((), (1,))), x.dtype), shape])
    elif form == "slice":
        end = _size(g, shape, rng.randrange(x.rank))
        if end is not None:
            less = g.add("Sub", [end, g.constant([1], "int64")])
            g.add("Slice", [x, g.constant([0], "int64"), less or end, g.constant([0], "int64")])
    elif form == "range":
        end = g.add("Gather", [shape, g.constant(0, "int64")])
        if end is not None:
            g.add("Range", [g.constant(0, "int64"), end, g.constant(rng.choice((1, 2)), "int64")])
    else:
        g.add(rng.choice(("Size", "NonZero")) if rng.random() < 0.3 else "Size", [x])


def _size(g: Graph, shape: Value, axis: int) -> Value | None:
    """Return one size as a vector, by a slice or a gather."""
    if g.rng.random() < 0.5:
        ends = [g.constant([v], "int64") for v in (axis, axis + 1, 0)]
        return g.add("Slice", [shape, *ends])  # type: ignore[no-any-return]
    return g.add("Gather", [shape, g.constant([axis], "int64")])  # type: ignore[no-any-return]


def _reshaped(g: Graph, x: Value, shape: Value) -> None:
    """Keep one size and merge the others, or multiply two sizes."""
    rng = g.rng
    own = _size(g, shape, rng.randrange(x.rank))
    if own is None:
        return
    if x.rank >= 2 and rng.random() < 0.4:
        next_one = _size(g, shape, rng.randrange(x.rank))
        own = (g.add("Mul", [own, next_one]) if next_one is not None else None) or own
    rest = g.constant([-1], "int64")
    target = g.add("Concat", [own, rest] if rng.random() < 0.5 else [rest, own], axis=0)
    if target is not None:
        g.add("Reshape", [x, target])


def branches(g: Graph) -> None:
    """`If` with a constant condition, one of sizes, or one of data; branches read outer values."""
    from onnx import helper

    rng, x = g.rng, g.pick()
    if x is None:
        return
    condition = _condition(g, x)
    if condition is None:
        return
    graphs, operands = [], [condition, x]
    for branch in ("then", "else"):
        other = g.partner(x)
        shapes = [np.broadcast_shapes(a.shape, b.shape)
                  for a, b in zip(x.arrays, other.arrays, strict=True)]  # fmt: skip
        if shapes != [a.shape for a in x.arrays]:  # both branches have results of one shape
            other = g.random_constant((), x.dtype)
        operands.append(other)
        inner, out = g.fresh("t"), g.fresh("b")
        op = rng.choice(("Add", "Mul", "Sub"))
        last = rng.choice(("Relu", "Identity", "Neg", "Sigmoid"))
        nodes = [helper.make_node(op, [x.name, other.name], [inner]),
                 helper.make_node(last, [inner], [out])]  # fmt: skip
        result = helper.make_empty_tensor_value_info(out)
        graphs.append(helper.make_graph(nodes, branch, [], [result]))
    node = helper.make_node("If", [condition.name], [g.fresh("v")],
                            then_branch=graphs[0], else_branch=graphs[1])  # fmt: skip
    g.added(node, operands)


def _condition(g: Graph, x: Value) -> Value | None:
    rng = g.rng
    form = rng.choice(("constant", "data", "data", "size"))
    if form == "constant":
        return g.constant(rng.random() < 0.5, "bool")
    if form == "size":
        size = g.add("Size", [x])
        if size is None:
            return None
        return g.add("Greater", [size, g.constant(rng.choice((4, 20)), "int64")])  # type: ignore[no-any-return]
    axes = {} if g.opset >= 18 else {"axes": list(range(x.rank))} if x.rank else {}
    total = g.add("ReduceMax", [x], keepdims=0, **axes)
    if total is None:
        return None
    return g.add("Greater", [total, g.constant(rng.choice((0, 1)), x.dtype)])  # type: ignore[no-any-return]


def constants(g: Graph) -> None:
    """A node of constants alone, whose result other nodes may use."""
    rng, x = g.rng, g.pick("fiub")
    if x is None:
        return
    fixed = x.shape if len(g.sizes) == 1 else x.shape[1:]
    own = g.random_constant(fixed, x.dtype)
    draw = rng.choice((elementwise.unary, elementwise.cast, shaping.transpose, shaping.slices,
                       reductions.reduce, shaping.reshape, shaping.pad, elementwise.binary,
                       shaping.expand, reductions.topk, reductions.choice))  # fmt: skip
    with g.focused(own):
        draw(g)
