"""Reductions, positions of extremes, the largest elements, running sums."""

from __future__ import annotations

from typing import Any

from ..graphs.graph import Graph

REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
              "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip


def reduce(g: Graph) -> None:
    """A reduction over some axes, all, or none, with both meanings of empty axes."""
    rng = g.rng
    op = rng.choice(REDUCTIONS)
    x = g.pick("f" if rng.random() < 0.8 else "iu")
    if x is None:
        return
    if op == "ReduceLogSum":
        x = g.add("Abs", [x]) or x
    count = rng.randrange(x.rank + 1)
    axes = [a - rng.choice((0, x.rank)) for a in rng.sample(range(x.rank), count)]
    attrs: dict[str, Any] = {} if rng.random() < 0.3 else {"keepdims": rng.randrange(2)}
    as_input = g.opset >= 18 or (op == "ReduceSum" and g.opset >= 13)
    if as_input and rng.random() < 0.3:
        attrs["noop_with_empty_axes"] = rng.randrange(2)
    if rng.random() < 0.15:
        g.add(op, [x], **attrs)
    elif as_input:
        g.add(op, [x, g.constant(axes, "int64")], **attrs)
    elif axes:
        g.add(op, [x], axes=axes, **attrs)


def choice(g: Graph) -> None:
    """`ArgMax` and `ArgMin`."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.7 else "iu")
    if x is None or not x.rank:
        return
    attrs: dict[str, Any] = {}
    if rng.random() < 0.8:
        attrs["axis"] = rng.randrange(-x.rank, x.rank)
    if rng.random() < 0.6:
        attrs["keepdims"] = rng.randrange(2)
    if rng.random() < 0.3:
        attrs["select_last_index"] = 1
    g.add(rng.choice(("ArgMax", "ArgMin")), [x], **attrs)


def topk(g: Graph) -> None:
    """`TopK` of the largest or the smallest elements."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.7 else "i")
    if x is None or not x.rank:
        return
    axis = rng.randrange(-x.rank, x.rank)
    count = rng.randrange(min(a.shape[axis] for a in x.arrays) + 1)
    attrs = {"largest": rng.randrange(2)} if rng.random() < 0.6 else {}
    g.add("TopK", [x, g.constant([count], "int64")], 2, axis=axis, **attrs)


def cumulative(g: Graph) -> None:
    """`CumSum` in both directions, with or without the element itself."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.7 else "i")
    if x is None or not x.rank:
        return
    axis = g.constant(rng.randrange(-x.rank, x.rank), rng.choice(("int64", "int32")))
    attrs = {name: 1 for name in ("exclusive", "reverse") if rng.random() < 0.4}
    g.add("CumSum", [x, axis], **attrs)
