"""Gathers, scatters, one-hot vectors, triangles; indices are constants or computed."""

from __future__ import annotations

import numpy as np

from ..graphs.graph import Graph, Value


def _indices(g: Graph, shape: list[int], size: int, dtype: str = "") -> Value:
    """Return constant indices of an axis, some of them negative."""
    low = -size if g.rng.random() < 0.3 else 0
    array = [g.rng.randrange(low, max(size, 1)) for _ in range(int(np.prod(shape)))]
    return g.constant(np.array(array, "int64").reshape(shape),
                      dtype or g.rng.choice(("int64", "int64", "int32")))  # fmt: skip


def gather(g: Graph) -> None:
    """`Gather`, `GatherElements` and `GatherND`."""
    rng, x = g.rng, g.pick("fiub")
    if x is None or not x.rank or not all(all(a.shape) for a in x.arrays):
        return
    op, axis = rng.choice(("Gather", "Gather", "GatherElements", "GatherND")), rng.randrange(x.rank)
    size = min(a.shape[axis] for a in x.arrays)
    if op == "Gather":
        computed = [v for v in g.values if v.dtype in ("int64", "int32") and v.origin == "node"]
        shape = rng.choice(([], [1], [2], [3], [2, 2], [0] if rng.random() < 0.2 else [4]))
        index = rng.choice(computed) if computed and rng.random() < 0.3 else (
            _indices(g, shape, size))  # fmt: skip
        g.add(op, [x, index], axis=rng.choice((axis, axis - x.rank)))
    elif op == "GatherElements":
        shape = [rng.randint(1, min(a.shape[k] for a in x.arrays)) if k != axis
                 else rng.randint(1, 4) for k in range(x.rank)]  # fmt: skip
        g.add(op, [x, _indices(g, shape, size)], axis=axis)
    else:
        deep = rng.randint(1, x.rank)
        rows = rng.randint(1, 3)
        parts = [_indices(g, [rows, 1], min(a.shape[k] for a in x.arrays)).arrays[0]
                 for k in range(deep)]  # fmt: skip
        g.add(op, [x, g.constant(np.concatenate(parts, 1), "int64")])


def scatter(g: Graph) -> None:
    """`ScatterElements` and `ScatterND`; places are distinct unless elements are reduced."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.7 else "i", (1, 2, 3))
    if x is None or not all(all(a.shape) for a in x.arrays):
        return
    more = ("max", "min") if g.opset >= 18 else ()
    reduction = rng.choice(("none", "none", "add", "mul", *more))
    attrs = {"reduction": reduction} if reduction != "none" and g.opset >= 16 else {}
    axis = rng.randrange(x.rank)
    size = min(a.shape[axis] for a in x.arrays)
    if rng.random() < 0.5:
        count = rng.randint(1, size)
        rest = [1 if k != axis else count for k in range(x.rank)]
        places = rng.sample(range(size), count)
        places = [p - rng.choice((0, size)) if len(g.sizes) == 1 else p for p in places]
        index = g.constant(np.array(places).reshape(rest), "int64")
        g.add("ScatterElements", [x, index, g.random_constant(rest, x.dtype)], axis=axis, **attrs)
        return
    rows = rng.sample(range(min(a.shape[0] for a in x.arrays)), 1)
    updates = g.random_constant((1, *x.shape[1:]), x.dtype)
    g.add("ScatterND", [x, g.constant([rows], "int64"), updates], **attrs)


def one_hot(g: Graph) -> None:
    """`OneHot` of computed or constant indices."""
    rng = g.rng
    x = g.pick("iu", dtypes=("int64", "int32", "uint8"))
    if x is not None:
        depth = g.constant(rng.choice((1, 3, 5)), "int64")
        g.add("OneHot", [x, depth, g.random_constant((2,), "float32")],
              axis=rng.choice((-1, -1, 0)))  # fmt: skip


def triangle(g: Graph) -> None:
    """`Trilu` with a diagonal, `EyeLike`."""
    rng = g.rng
    x = g.pick("fi", (2, 3, 4))
    if x is None:
        return
    if x.rank == 2 and rng.random() < 0.3:
        g.add("EyeLike", [x], k=rng.randint(-2, 2))
        return
    diagonal = [g.constant(rng.randint(-3, 3), "int64")] if rng.random() < 0.6 else []
    g.add("Trilu", [x, *diagonal], upper=rng.randrange(2))
