"""Convolutions, pools, normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graphs.graph import Graph, Value
from ..graphs.values import extents


def image(g: Graph, ranks: tuple[int, ...] = (3, 4, 4, 5)) -> Value | None:
    """Return a float tensor with a batch, channels and one to three axes; maybe a new input."""
    rng = g.rng
    x = g.pick("f", ranks)
    if x is not None and rng.random() < 0.85:
        return x  # type: ignore[no-any-return]
    shape = extents(rng, rng.choice(ranks))
    first = [size if len(g.sizes) > 1 else shape[0] for size in g.sizes]
    wide = [min(8, d + 2) for d in shape[2:]]
    return g.input([(b, shape[1], *wide) for b in first], "float32")


def _windows(g: Graph, spatial: int, kernel: list[int], dilated: bool = True) -> dict[str, Any]:
    """Draw strides, dilations and pads, or `auto_pad`, each present or absent."""
    rng = g.rng
    attrs: dict[str, Any] = {}
    if rng.random() < 0.5:
        attrs["strides"] = [rng.choice((1, 1, 2, 3)) for _ in range(spatial)]
    if dilated and rng.random() < 0.25:
        attrs["dilations"] = [rng.choice((1, 1, 2)) for _ in range(spatial)]
    form = rng.random()
    if form < 0.25:
        attrs["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    elif form < 0.8:
        same = rng.random() < 0.6
        pads = [rng.randrange(k) for k in kernel]
        attrs["pads"] = pads + (pads if same else [rng.randrange(k) for k in kernel])
    return attrs


def convolution(g: Graph) -> None:
    """`Conv` with groups, with or without bias and `kernel_shape`; mostly of constant weights."""
    rng, x = g.rng, image(g)
    if x is None:
        return
    kernel = [rng.choice((1, 1, 2, 3, 3)) for _ in range(x.rank - 2)]
    channels = x.shape[1]
    groups = rng.choice([d for d in range(1, channels + 1) if channels % d == 0] or [1])
    groups = 1 if rng.random() < 0.6 else groups
    out = groups * rng.choice((1, 2, 3, 4))
    shape = (out, channels // groups, *kernel)
    weight = g.input([shape] * len(g.sizes), x.dtype) if rng.random() < 0.1 else (
        g.random_constant(shape, x.dtype))  # fmt: skip
    attrs = _windows(g, x.rank - 2, kernel)
    if groups > 1 or rng.random() < 0.2:
        attrs["group"] = groups
    if rng.random() < 0.6:
        attrs["kernel_shape"] = kernel
    bias = g.random_constant((out,), x.dtype) if rng.random() < 0.6 else None
    y = g.add("Conv", [x, weight, bias], **attrs)
    if y is not None and rng.random() < 0.4:
        g.add(rng.choice(("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish")), [y])


def transposed(g: Graph) -> None:
    """`ConvTranspose` with output padding or an output shape."""
    rng, x = g.rng, image(g)
    if x is None:
        return
    kernel = [rng.choice((1, 2, 3)) for _ in range(x.rank - 2)]
    groups = rng.choice((1, 1, 2)) if x.shape[1] % 2 == 0 and x.shape[1] else 1
    out = rng.choice((1, 2, 3))
    attrs = _windows(g, x.rank - 2, kernel, dilated=rng.random() < 0.1)
    if groups > 1:
        attrs["group"] = groups
    if rng.random() < 0.3 and "strides" in attrs:
        attrs["output_padding"] = [rng.randrange(s) for s in attrs["strides"]]
    elif rng.random() < 0.15:
        attrs["output_shape"] = [d + rng.randrange(3) for d in x.shape[2:]]
    weight = g.random_constant((x.shape[1], out, *kernel), x.dtype)
    bias = g.random_constant((out * groups,), x.dtype) if rng.random() < 0.5 else None
    g.add("ConvTranspose", [x, weight, bias], **attrs)


def pool(g: Graph) -> None:
    """Pools, with rounding up, counted pads, positions and global ones."""
    rng, x = g.rng, image(g)
    if x is None:
        return
    op = rng.choice(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool",
                     "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))  # fmt: skip
    if op.startswith("Global"):
        g.add(op, [x])
        return
    kernel = [rng.choice((1, 2, 2, 3)) for _ in range(x.rank - 2)]
    dilated = op == "MaxPool" or (op == "AveragePool" and g.opset >= 19)
    attrs = {"kernel_shape": kernel, **_windows(g, x.rank - 2, kernel, dilated)}
    if rng.random() < 0.3 and (op != "LpPool" or g.opset >= 18):
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and rng.random() < 0.5:
        attrs["count_include_pad"] = rng.randrange(2)
    if op == "LpPool" and rng.random() < 0.5:
        attrs["p"] = rng.choice((1, 2, 3))
    g.add(op, [x], 2 if op == "MaxPool" and rng.random() < 0.04 else 1, **attrs)


def norm(g: Graph) -> None:
    """Normalisations over channels, trailing axes, groups, or vectors."""
    rng = g.rng
    op = rng.choice(("BatchNormalization", "InstanceNormalization", "LayerNormalization",
                     "LayerNormalization", "GroupNormalization", "LpNormalization", "LRN",
                     "MeanVarianceNormalization", "RMSNormalization"))  # fmt: skip
    flat = op.startswith(("Layer", "Lp", "RMS", "Batch"))
    x = g.pick("f", (2, 3, 4)) if flat else image(g, (3, 4))
    if x is None:
        return
    attrs = {"epsilon": rng.choice((1e-5, 1e-3, 0.1))} if rng.random() < 0.5 else {}
    channels = (x.shape[1],)
    if op == "BatchNormalization":
        scale, bias, mean = (g.random_constant(channels, x.dtype) for _ in range(3))
        squares = abs(g.random_constant(channels, x.dtype).arrays[0])
        variance = g.constant(squares + np.asarray(0.1, x.dtype))
        g.add(op, [x, scale, bias, mean, variance], **attrs)
    elif op in ("InstanceNormalization", "GroupNormalization"):
        groups = rng.choice([d for d in range(1, x.shape[1] + 1) if x.shape[1] % d == 0] or [1])
        own = {**attrs, "num_groups": groups} if op.startswith("Group") else attrs
        scales = (groups,) if op.startswith("Group") and g.opset < 21 else channels
        g.add(op, [x, *(g.random_constant(scales, x.dtype) for _ in range(2))], **own)
    elif op in ("LayerNormalization", "RMSNormalization"):
        axis = rng.choice((-1, -1, x.rank - 1, max(1, x.rank - 2)))
        scale = g.random_constant(x.shape[axis:], x.dtype)
        more = [g.random_constant(x.shape[axis:], x.dtype)] if rng.random() < 0.6 else []
        g.add(op, [x, scale, *(more if op.startswith("Layer") else [])], axis=axis, **attrs)
    elif op == "LpNormalization":
        g.add(op, [x], axis=rng.randrange(-x.rank, x.rank), p=rng.choice((1, 2)))
    elif op == "LRN":
        size, added = rng.choice((1, 3, 5)), rng.choice((1.0, 2.0))
        g.add(op, [x], size=size, alpha=0.1, beta=0.75, bias=added)
    else:
        g.add(op, [x], **({"axes": [0, 2]} if x.rank == 3 or rng.random() < 0.5 else {}))


def softmax(g: Graph) -> None:
    """Softmax and its kin over any axis."""
    rng, x = g.rng, g.pick()
    if x is not None and x.rank:
        op = rng.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
        axis = {"axis": rng.randrange(-x.rank, x.rank)} if rng.random() < 0.8 else {}
        g.add(op, [x], **axis)
