"""Integers, bools and quantised values."""

from __future__ import annotations

import numpy as np

from ..graphs.graph import Graph, Value
from ..graphs.values import INTEGERS


def arithmetic(g: Graph) -> None:
    """Arithmetic of integers; quotients and remainders by constants that are not 0."""
    rng = g.rng
    x = g.pick("iu")
    if x is None:
        return
    op = rng.choice(("Add", "Sub", "Mul", "Div", "Mod", "Mod", "Max", "Min", "Abs", "Neg", "Sign"))
    if op in ("Abs", "Neg", "Sign"):
        g.add(op, [x])
        return
    y = g.partner(x)
    if op in ("Div", "Mod"):
        divisors = (1, 2, 3, 5, 7) if x.kind == "u" else (1, 2, 3, -1, -2, -3, 7)
        shape = rng.choice(((), (), x.shape[-1:] if len(g.sizes) == 1 else ()))
        elements = rng.choices(divisors, k=int(np.prod(shape)))
        y = g.constant(np.array(elements).reshape(shape), x.dtype)
    g.add(op, [x, y], **({"fmod": 1} if op == "Mod" and rng.random() < 0.4 else {}))


def logic(g: Graph) -> None:
    """Operators of bools."""
    x = g.pick("b")
    if x is None:
        x = g.pick("f")
        x = None if x is None else g.add("Greater", [x, g.constant(0, x.dtype)])
    if x is None:
        return
    op = g.rng.choice(("And", "Or", "Xor", "Not", "Equal"))
    g.add(op, [x] if op == "Not" else [x, g.partner(x)])


def bits(g: Graph) -> None:
    """Shifts, and operators bit by bit."""
    rng = g.rng
    x = g.pick("iu")
    if x is None:
        return
    op = rng.choice(("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    if op == "BitShift":
        x = x if x.kind == "u" else g.pick("u")
        if x is not None:
            by = g.constant(rng.randrange(0, 8), x.dtype)
            g.add(op, [x, by], direction=rng.choice(("LEFT", "RIGHT")))
        return
    g.add(op, [x] if op == "BitwiseNot" else [x, g.partner(x)])


def _scale_and_zero(g: Graph, x: Value, dtype: str, axis: int | None) -> list[Value | None]:
    """Return constants for a tensor, or for each index of an axis."""
    rng = g.rng
    shape = () if axis is None else (x.shape[axis],)
    scale = np.array([rng.choice((0.01, 0.02, 0.1, 0.25, 0.5)) for _ in range(int(np.prod(shape)))])
    info = np.iinfo(dtype)
    low, high = (0, 1) if dtype == "int32" else (max(info.min, -128), min(info.max, 127) + 1)
    zero = np.array([rng.randrange(low, high) for _ in range(int(np.prod(shape)))])
    zero = zero * 0 if rng.random() < 0.3 else zero
    absent = dtype in ("uint8", "int32") and rng.random() < 0.2
    scales = g.constant(scale.reshape(shape), "float32")
    return [scales, None if absent else g.constant(zero.reshape(shape), dtype)]


def quantized(g: Graph) -> None:
    """Quantise, dequantise, or both; scales for the tensor or along an axis."""
    rng = g.rng
    x = g.pick("f", dtypes=("float32",))
    if rng.random() < 0.25:
        x = g.pick("iu", dtypes=("uint8", "int8", "int32"))
        if x is not None:
            _dequantized(g, x, rng.choice((None, None, 0)))
        return
    if x is None:
        return
    if rng.random() < 0.2:
        g.add("DynamicQuantizeLinear", [x], 3)
        return
    axis = rng.randrange(x.rank) if x.rank and rng.random() < 0.3 and len(g.sizes) == 1 else None
    parts = _scale_and_zero(g, x, rng.choice(("uint8", "int8")), axis)
    attrs = {} if axis is None else {"axis": rng.choice((axis, axis - x.rank))}
    q = g.add("QuantizeLinear", [x, *parts], **attrs)
    if q is not None and rng.random() < 0.7:
        g.add("DequantizeLinear", [q, *parts], **attrs)


def _dequantized(g: Graph, x: Value, axis: int | None) -> None:
    axis = None if axis is None or not x.rank or len(g.sizes) > 1 else g.rng.randrange(x.rank)
    parts = _scale_and_zero(g, x, x.dtype, axis)
    g.add("DequantizeLinear", [x, *parts], **({} if axis is None else {"axis": axis}))


def quantized_product(g: Graph) -> None:
    """Products and convolutions of integers, with zero points, and their quantised forms."""
    rng = g.rng
    a = g.pick("iu", dtypes=("uint8", "int8"), ranks=(2, 3, 4))
    if a is None:
        integers(g)
        return
    op = rng.choice(("MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv"))
    point, dtype = g.constant(rng.randrange(0, 20), a.dtype), rng.choice(("uint8", "int8"))
    if "Conv" in op:
        channels, kernel = a.shape[1], [rng.choice((1, 2, 3)) for _ in a.shape[2:]]
        b = g.random_constant((rng.choice((1, 2, 4)), channels, *kernel), dtype)
        attrs = {"pads": [rng.randrange(2) for _ in kernel * 2]}
    else:
        b = g.random_constant((a.shape[-1], rng.choice((1, 3, 4))), dtype)
        attrs = {}
    other = g.constant(rng.randrange(0, 20), b.dtype)
    if "Integer" in op:
        g.add(op, [a, b, *rng.choice(([], [point], [point, other]))], **attrs)
        return
    scales = [g.constant(rng.choice((0.01, 0.05, 0.1, 0.5)), "float32") for _ in range(3)]
    g.add(op, [a, scales[0], point, b, scales[1], other, scales[2],
               g.constant(rng.randrange(0, 20), a.dtype)], **attrs)  # fmt: skip


def integers(g: Graph) -> None:
    """An input of integers."""
    x = g.pick()
    if x is not None:
        g.input([a.shape for a in x.arrays], g.rng.choice(INTEGERS))
