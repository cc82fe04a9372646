"""Element by element: functions, arithmetic with broadcasting, comparisons, selections, casts."""

from __future__ import annotations

from ..graphs.graph import Graph
from ..graphs.values import FLOATS, INTEGERS

UNARY = ("Abs", "Neg", "Floor", "Ceil", "Round", "Sign", "Reciprocal", "Sqrt", "Exp", "Log", "Erf",
         "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh",
         "Atanh", "Sigmoid", "Softplus", "Softsign", "Identity", "Relu", "IsNaN",
         "IsInf")  # fmt: skip
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Add", "Mul", "Pow", "PRelu", "Mod")
COMPARISONS = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


def unary(g: Graph) -> None:
    """A function of one operand; roots and logarithms mostly of absolute values."""
    op = g.rng.choice(UNARY)
    x = g.pick("iu" if op in ("Abs", "Neg", "Sign", "Relu") and g.rng.random() < 0.2 else "f")
    if x is None:
        return
    if op in ("Sqrt", "Log") and g.rng.random() < 0.8:
        x = g.add("Abs", [x])
    if x is None:
        return
    if op == "IsInf" and g.rng.random() < 0.5:
        g.add(op, [x], detect_negative=g.rng.randrange(2), detect_positive=g.rng.randrange(2))
        return
    g.add(op, [x])


def activation(g: Graph) -> None:
    """An activation with its attributes, drawn or left to their defaults."""
    rng, x = g.rng, g.pick()
    if x is None:
        return
    named = {
        "LeakyRelu": ("alpha",), "Elu": ("alpha",), "Selu": ("alpha", "gamma"), "Celu": ("alpha",),
        "HardSigmoid": ("alpha", "beta"), "HardSwish": (), "ThresholdedRelu": ("alpha",),
        "Shrink": ("lambd", "bias"), "Gelu": (), "Mish": (), "Softplus": (), "Relu": (),
        "Swish": (),
    }  # fmt: skip
    op = rng.choice(list(named))
    attrs = {k: round(rng.uniform(0.05, 2.0), 3) for k in named[op] if rng.random() < 0.7}
    if op in ("LeakyRelu", "Elu") and rng.random() < 0.1:
        attrs["alpha"] = -0.5
    if op == "Gelu" and rng.random() < 0.5:
        g.add(op, [x], approximate="tanh")
        return
    g.add(op, [x], **attrs)


def binary(g: Graph) -> None:
    """Arithmetic of two operands in either order, sometimes the same one twice."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.8 else "iu")
    if x is None:
        return
    op = rng.choice(ARITHMETIC)
    y = x if rng.random() < 0.08 else g.partner(x)
    if op == "Pow":
        y = g.constant(rng.choice((2, 3, 0.5, 1, 0, -1)), "float32" if x.kind == "f" else x.dtype)
        y = g.constant(y.arrays[0], x.dtype) if rng.random() < 0.5 else y
    if op == "Mod":
        g.add(op, [x, y], fmod=int(x.kind == "f" or rng.random() < 0.5))
        return
    g.add(op, [x, y] if op in ("Pow", "PRelu") or rng.random() < 0.7 else [y, x])


def comparison(g: Graph) -> None:
    """A comparison of two operands."""
    x = g.pick("fiu")
    if x is not None:
        g.add(g.rng.choice(COMPARISONS), [x, g.partner(x)])


def selection(g: Graph) -> None:
    """`Where`, with a condition of the graph, of a comparison or a constant."""
    rng = g.rng
    x = g.pick("fiub")
    if x is None:
        return
    condition = g.partner(x, "bool")
    if rng.random() < 0.4 and x.kind == "f":
        condition = g.add("Less", [x, g.partner(x)]) or condition
    g.add("Where", [condition, x, g.partner(x)] if rng.random() < 0.5
          else [condition, g.partner(x), x])  # fmt: skip


def extremum(g: Graph) -> None:
    """An operator of one to four operands."""
    rng = g.rng
    op = rng.choice(("Max", "Min", "Sum", "Mean"))
    x = g.pick("f" if op in ("Sum", "Mean") or rng.random() < 0.7 else "iu")
    if x is not None:
        g.add(op, [x, *(g.partner(x) for _ in range(rng.choice((0, 1, 1, 2, 3))))])


def clip(g: Graph) -> None:
    """`Clip` with both bounds, one or none; a computed bound now and then."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.7 else "iu")
    if x is None:
        return
    low, high = rng.choice(((-1, 1), (0, 6), (0, 1), (2, 3), (1, -1)))
    bounds = [g.constant(b, x.dtype) if rng.random() < 0.75 and (x.kind != "u" or b >= 0) else None
              for b in (low, high)]  # fmt: skip
    if rng.random() < 0.1:
        bounds[0] = g.add("ReduceMin", [x], keepdims=0) if x.rank else bounds[0]
    g.add("Clip", [x, *bounds])


def cast(g: Graph) -> None:
    """A conversion to any dtype."""
    import numpy as np
    from onnx import helper

    rng = g.rng
    x = g.pick("fiub")
    if x is None:
        return
    to = rng.choice((*FLOATS, "float32", *INTEGERS, "int64", "bool"))
    if rng.random() < 0.2:
        like = g.pick("fiub")
        g.add("CastLike", [x, like])
        return
    g.add("Cast", [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
