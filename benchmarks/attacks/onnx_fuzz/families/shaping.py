"""Reshapes, transpositions, slices, joins, pads, blocks and resizing."""

from __future__ import annotations

from math import prod
from typing import Any

from ..graphs.graph import Graph, Value

ANY = "fiub"


def reshape(g: Graph) -> None:
    """`Reshape` with factors of the size, with 0 and -1, or `Flatten`."""
    rng, x = g.rng, g.pick(ANY)
    if x is None:
        return
    if rng.random() < 0.2:
        g.add("Flatten", [x], **({"axis": rng.randrange(-x.rank, x.rank + 1)} if x.rank else {}))
        return
    rest, shape = prod(x.shape), []
    for _ in range(rng.randrange(4)):
        factor = rng.choice([d for d in range(1, min(rest, 16) + 1) if rest % d == 0] or [1])
        shape.append(factor)
        rest //= factor
    shape.append(rest)
    if x.rank and rng.random() < 0.4:
        shape = [0, *([-1] if rng.random() < 0.6 else [prod(x.shape[1:])])]
    elif shape and rng.random() < 0.5:
        shape[rng.randrange(len(shape))] = -1
    attrs = {"allowzero": 1} if g.opset >= 14 and rng.random() < 0.1 else {}
    g.add("Reshape", [x, g.constant(shape, "int64")], **attrs)


def transpose(g: Graph) -> None:
    """`Transpose` by any permutation, or the reversal."""
    rng, x = g.rng, g.pick(ANY)
    if x is not None:
        perm = {"perm": rng.sample(range(x.rank), x.rank)} if rng.random() < 0.9 else {}
        g.add("Transpose", [x], **perm)


def axes(g: Graph) -> None:
    """`Squeeze` and `Unsqueeze`."""
    rng, x = g.rng, g.pick(ANY)
    if x is None:
        return
    ones = [k for k in range(x.rank) if all(a.shape[k] == 1 for a in x.arrays)]
    if ones and rng.random() < 0.6:
        own = [k - rng.choice((0, x.rank)) for k in rng.sample(ones, rng.randint(1, len(ones)))]
        g.add("Squeeze", [x, g.constant(own, "int64")] if rng.random() < 0.8 else [x])
        return
    count = rng.choice((1, 1, 2))
    own = rng.sample(range(-x.rank - count, x.rank + count), count)
    g.add("Unsqueeze", [x, g.constant(own, "int64")])


def slices(g: Graph) -> None:
    """`Slice` along some axes, also backwards and beyond the ends."""
    rng, x = g.rng, g.pick(ANY)
    if x is None or not x.rank:
        return
    own = rng.sample(range(x.rank), rng.randint(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for k in own:
        size = x.shape[k]
        forward = rng.random() < 0.75
        starts.append(rng.choice((0, 0, 1, -1, -size, rng.randrange(-size - 1, size + 2))))
        ends.append(rng.choice((size, -1, 2**63 - 1, rng.randrange(-size - 1, size + 2))))
        if not forward:
            starts[-1] = rng.choice((-1, size - 1, size + 5))
            ends[-1] = rng.choice((-(2**63), 0, -size - 1))
        steps.append(rng.choice((1, 1, 2, 3)) * (1 if forward else -1))
    parts = [starts, ends, [k - rng.choice((0, x.rank)) for k in own], steps]
    y = [g.constant(part, "int64") for part in parts]
    count = rng.choice((3, 4, 4)) if all(s > 0 for s in steps) else 4
    g.add("Slice", [x, *y[:count]])


def concat(g: Graph) -> None:
    """`Concat` of a value with others, itself and constants."""
    rng, x = g.rng, g.pick(ANY)
    if x is None or not x.rank:
        return
    axis = rng.randrange(x.rank)
    fits = [v for v in g.values if v.dtype == x.dtype and v.rank == x.rank and all(
        a.shape[:axis] + a.shape[axis + 1 :] == b.shape[:axis] + b.shape[axis + 1 :]
        for a, b in zip(v.arrays, x.arrays, strict=True))]  # fmt: skip
    operands: list[Value] = [x, *rng.choices(fits, k=rng.choice((0, 1, 1, 2)))]
    if len(g.sizes) == 1 and rng.random() < 0.4:
        shape = [*x.shape[:axis], rng.choice((0, 1, 2)), *x.shape[axis + 1 :]]
        operands.append(g.random_constant(shape, x.dtype))
    rng.shuffle(operands)
    g.add("Concat", operands, axis=rng.choice((axis, axis - x.rank)))


def split(g: Graph) -> None:
    """`Split` into equal parts, by sizes, or by a number of outputs."""
    rng, x = g.rng, g.pick(ANY)
    if x is None or not x.rank:
        return
    axis = rng.randrange(x.rank)
    count, size = rng.choice((1, 2, 2, 3)), x.shape[axis]
    if rng.random() < 0.5:
        cuts = sorted(rng.randrange(size + 1) for _ in range(count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
        g.add("Split", [x, g.constant(sizes, "int64")], count, axis=axis)
        return
    attrs = {"num_outputs": count} if g.opset >= 18 else {}
    g.add("Split", [x], count, axis=axis, **attrs)


def pad(g: Graph) -> None:
    """`Pad` in each mode; constant ones may cut."""
    rng = g.rng
    x = g.pick("fi")
    if x is None or not x.rank:
        return
    modes = ("constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else []))
    mode = rng.choice(modes)
    low = -1 if mode == "constant" and rng.random() < 0.3 else 0
    pads = [rng.choice((0, 0, rng.randint(low, 2))) for _ in range(2 * x.rank)]
    value = g.constant(rng.choice((0, 1, -2)), x.dtype) if rng.random() < 0.6 else None
    attrs = {"mode": mode} if mode != "constant" or rng.random() < 0.5 else {}
    if g.opset >= 18 and rng.random() < 0.3:
        own = rng.sample(range(x.rank), rng.randint(1, x.rank))
        pads = [rng.randint(low, 2) for _ in range(2 * len(own))]
        g.add("Pad", [x, g.constant(pads, "int64"), value, g.constant(own, "int64")], **attrs)
        return
    g.add("Pad", [x, g.constant(pads, "int64"), value if mode == "constant" else None], **attrs)


def expand(g: Graph) -> None:
    """`Expand` and `Tile`."""
    rng, x = g.rng, g.pick(ANY)
    if x is None:
        return
    if rng.random() < 0.5:
        times = [rng.choice((1, 1, 2, 3, 0) if rng.random() < 0.1 else (1, 1, 2)) for _ in x.shape]
        g.add("Tile", [x, g.constant(times, "int64")])
        return
    shape = [rng.choice((1, d, d)) if d != 1 else rng.choice((1, 2, 3)) for d in x.shape]
    shape = [rng.choice((1, 2)), *shape] if rng.random() < 0.4 else shape[rng.choice((0, 0, 1)) :]
    g.add("Expand", [x, g.constant(shape, "int64")])


def blocks(g: Graph) -> None:
    """`DepthToSpace` and `SpaceToDepth`."""
    rng = g.rng
    x = g.pick("f", (4,))
    if x is None:
        return
    attrs: dict[str, Any] = {"blocksize": rng.choice((1, 2, 2, 3))}
    if x.shape[1] % attrs["blocksize"] ** 2 or rng.random() < 0.5:
        g.add("SpaceToDepth", [x], **attrs)
    else:
        g.add("DepthToSpace", [x], mode=rng.choice(("DCR", "CRD")), **attrs)


def resize(g: Graph) -> None:
    """`Resize` by scales or to sizes."""
    rng = g.rng
    x = g.pick("f", (3, 4))
    if x is None or not all(x.shape):
        return
    mode = rng.choice(("nearest", "nearest", "linear", "cubic"))
    transform = rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    attrs = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        rounding = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        attrs["nearest_mode"] = rng.choice(rounding)
    if rng.random() < 0.5 and len(g.sizes) == 1:
        sizes = [*x.shape[:2], *(max(1, d + rng.randint(-2, 4)) for d in x.shape[2:])]
        g.add("Resize", [x, None, None, g.constant(sizes, "int64")], **attrs)
        return
    scales = [1.0, 1.0, *(rng.choice((0.5, 1.0, 1.5, 2.0, 3.0)) for _ in x.shape[2:])]
    g.add("Resize", [x, None, g.constant(scales, "float32")], **attrs)
