"""Quantisation, of the whole tensor or along an axis.

    quantize:    out[y] = saturate(round(x[y] / scale[y_axis]) + zero_point[y_axis])
    dequantize:  out[y] = (x[y] - zero_point[y_axis]) * scale[y_axis]

float8 is not rounded, and only float16 is saturated after dequantize. Scale and zero point are
literals, or tensors of one element or of one element for each coordinate of the axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Constant, Proposal
from ...proposal.undetermined import among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ZERO, Const, Int, Load, Term, as_int, const
from .._forms.access_functions import literal
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import bare, uncast

QUANTIZE, DEQUANTIZE = "relax.quantize", "relax.dequantize"
INTEGERS = ("int8", "uint8", "int16", "uint16")
SMALL_FLOATS = ("float8_e4m3fn", "float8_e5m2")


def _case(op: str, data: str, scale: str, zero: str, out: str, axis: int) -> Matches:
    per_tensor = all("n" not in s.replace("int", "") for s in (scale, zero))
    attrs = {"axis": axis, "out_dtype": out}
    return Matches(op, (data, scale, zero), attrs, {**attrs, "axis": -1} if per_tensor else attrs)


MATCHES = [
    *(
        _case(QUANTIZE, "float32[2, n, 4]", "float32[n]", "int8[n]", out, 1)
        for out in INTEGERS + SMALL_FLOATS
    ),
    _case(QUANTIZE, "float16[3, n]", "float16[n]", "uint8[n]", "uint8", 1),
    _case(QUANTIZE, "float16[n, 4]", "float32[n]", "float16[1]", "int8", 0),
    _case(QUANTIZE, "float32[n]", "float32[n]", "int32[n]", "int8", 0),
    _case(QUANTIZE, "float32[2, 4]", "float32[1]", "int8[]", "int8", 1),
    _case(QUANTIZE, "float32[2, 4]", "float32(0.5)", "int8(3)", "int8", 0),
    _case(QUANTIZE, "float16[n, 4]", "float16(0.5)", "uint8(128)", "uint8", 0),
    _case(QUANTIZE, "float32[2, 4]", "float32(1.0)", "int8(0)", "int8", 0),
    _case(QUANTIZE, "float32[2, n]", "float32[n]", "int8(0)", "int8", 1),
    *(
        _case(DEQUANTIZE, f"{data}[2, n, 4]", "float32[n]", f"{zero}[n]", out, 1)
        for out in ("float32", "float16")
        for data, zero in (
            ("int8", "int8"),
            ("uint8", "uint8"),
            ("int16", "int16"),
            ("int32", "int32"),
        )
    ),
    _case(DEQUANTIZE, "float16[2, n]", "float32[n]", "float16[n]", "float32", 1),
    _case(DEQUANTIZE, "float8_e4m3fn[2, n]", "float32[n]", "float16[n]", "float32", 1),
    _case(DEQUANTIZE, "int8[n]", "float16[n]", "int8[1]", "float32", 0),
    _case(DEQUANTIZE, "int8[2, 4]", "float32[]", "int8[1]", "float16", 0),
    _case(DEQUANTIZE, "uint8[2, 4]", "float32(0.5)", "uint8(3)", "float32", 0),
    _case(DEQUANTIZE, "int8[2, n]", "float32[n]", "int8(0)", "float32", 1),
    _case(DEQUANTIZE, "int8[2, n]", "float32(0.25)", "int8(0)", "float16", 1),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "{x}"), s: T.Buffer((6,), "float32"), z: T.Buffer((6,), "int8"),
         out: T.Buffer((4, 6), "{out}")):
    for i, j in T.grid(4, 6):
        out[i, j] = {value}
"""


def _quantized(value: str) -> str:
    return _HEAD.format(x="float32", out="int8", value=value)


def _dequantized(value: str) -> str:
    return _HEAD.format(x="int8", out="float32", value=value)


REFUSES = [
    Refuses(
        "the zero point is added before rounding",
        _quantized(
            'T.Cast("int8", T.max(T.min(T.round(x[i, j] / s[j] + T.Cast("float32", z[j])), '
            "T.float32(127)), T.float32(-128)))"
        ),
    ),
    Refuses(
        "nothing is saturated",
        _quantized('T.Cast("int8", T.round(x[i, j] / s[j]) + T.Cast("float32", z[j]))'),
    ),
    Refuses(
        "saturation at -127",
        _quantized(
            'T.Cast("int8", T.max(T.min(T.round(x[i, j] / s[j]) + T.Cast("float32", z[j]), '
            "T.float32(127)), T.float32(-127)))"
        ),
    ),
    Refuses(
        "halves are rounded to even",
        _quantized(
            'T.Cast("int8", T.max(T.min(T.nearbyint(x[i, j] / s[j]) + T.Cast("float32", z[j]), '
            "T.float32(127)), T.float32(-128)))"
        ),
    ),
    Refuses(
        "the difference wraps around in int8",
        _dequantized('T.Cast("float32", x[i, j] - z[j]) * s[j]'),
    ),
    Refuses(
        "the zero point of another channel",
        _dequantized(
            'T.Cast("float32", T.Cast("int32", x[i, j]) - T.Cast("int32", z[5 - j])) * s[j]'
        ),
    ),
    Refuses(
        "the zero point is added",
        _dequantized('T.Cast("float32", T.Cast("int32", x[i, j]) + T.Cast("int32", z[j])) * s[j]'),
    ),
]

#: The data, the scale and the zero point.
Parts = tuple[Load, Term, Term]
NOTHING = const(0, "int32")


@recogniser("quantize", precedence=150, ops=(QUANTIZE, DEQUANTIZE))
def quantize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the formula from the outside in; the axis indexes scale or zero point."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1:
        return Refusal("a quantisation has one output")
    if definition.out.dtype in INTEGERS + SMALL_FLOATS:
        name, candidates = QUANTIZE, _quantized_parts(definition)
    elif definition.out.dtype in ("float32", "float16"):
        name, candidates = DEQUANTIZE, _dequantized_parts(definition)
    else:
        return Refusal("no quantisation has an output of this dtype", definition.out.dtype)
    out = [
        proposal
        for parts in candidates
        if (proposal := _proposal(name, definition, *parts)) is not None
    ]
    return out or Refusal("the compute is not a scaled and shifted operand")


def _quantized_parts(definition: OutputDefinition) -> Iterator[Parts]:
    """``saturate(round(x / scale) + zero)``; a scale of 1 and a zero of 0 leave no trace."""
    value = _saturated(definition.body)
    for scaled, zero in () if value is None else _operands(value, "add", NOTHING):
        rounded = args(scaled, "round")
        quotient = args(rounded[0] if rounded else scaled, "div")
        data, scale = quotient or (rounded[0] if rounded else scaled, const(1.0, "float32"))
        if _at_own_place(uncast(data), definition):
            yield uncast(data), uncast(scale), uncast(zero)  # type: ignore[misc]


def _dequantized_parts(definition: OutputDefinition) -> Iterator[Parts]:
    """``(x - zero) * scale``, saturated for float16 where it could exceed its range."""
    value: Term | None = definition.body
    if definition.out.dtype == "float16":
        value = _saturated(definition.body) or definition.body
    for shifted, scale in () if value is None else _operands(value, "mul", const(1.0, "float32")):
        data, zero = _difference(uncast(shifted))
        if _at_own_place(data, definition):
            yield data, uncast(scale), zero  # type: ignore[misc]
    yield from () if value is None else _multiplied_out(value, definition)


def _multiplied_out(value: Term, definition: OutputDefinition) -> Iterator[Parts]:
    """``x * scale + k`` with literals, as ``(x - zero) * scale`` for a whole ``zero``."""
    for op, sign in (("add", -1.0), ("sub", 1.0)):
        for product, shift in _operands(value, op, NOTHING):
            for data, scale in _operands(product, "mul", NOTHING):
                x, factor, k = uncast(data), bare(scale), bare(shift)
                if not (isinstance(factor, Const) and isinstance(k, Const) and factor.value):
                    continue
                if not math.isfinite(k.value / factor.value):
                    continue
                zero = round(sign * k.value / factor.value)
                exact = math.isclose(zero * factor.value, sign * k.value, rel_tol=1e-6)
                if zero and exact and _at_own_place(x, definition) and _fits(zero, x.dtype):
                    yield x, factor, const(zero, "int32")  # type: ignore[misc]


def _fits(value: int, dtype: str) -> bool:
    if dtype not in INTEGERS:
        return False
    info = np.iinfo(dtype)
    return bool(info.min <= value <= info.max)


def _operands(term: Term, op: str, unit: Term) -> Iterator[tuple[Term, Term]]:
    """``op(a, b)`` as both ``(a, b)`` and ``(b, a)``; any other term is ``op(term, unit)``."""
    operands = args(term, op)
    if operands is None or len(operands) != 2:  # up to rounding, products and sums are flattened
        yield term, unit
        return
    yield operands[0], operands[1]
    yield operands[1], operands[0]


def _saturated(term: Term) -> Term | None:
    """The value v of ``cast(max(min(v, high), low))``."""
    for outer, inner in (("max", "min"), ("min", "max")):
        for clamped in args(term, outer) or ():
            for value in args(clamped, inner) or ():
                if not isinstance(bare(value), Const):
                    return value
    return None


def _difference(term: Term) -> tuple[Term, Term]:
    """``x - zero`` as ``(x, zero)``; for integers it is a polynomial."""
    operands = args(term, "sub")
    if operands:
        return uncast(operands[0]), uncast(operands[1])
    if not isinstance(term, Int):
        return term, NOTHING
    plus = [m[0] for m, k in term.terms if k == 1 and len(m) == 1]
    if len(plus) != 1:
        return term, NOTHING
    return uncast(plus[0]), uncast(as_int(plus[0]) - term)


def _at_own_place(term: Term, definition: OutputDefinition) -> bool:
    return (
        isinstance(term, Load)
        and term.indices == definition.axes
        and term.tensor.shape == definition.out.shape
    )


def _proposal(
    name: str, definition: OutputDefinition, load: Load, scale: Term, zero: Term
) -> Proposal | None:
    quantized = definition.out.dtype if name == QUANTIZE else load.tensor.dtype
    operands = (_scale(scale), _zero_point(zero, quantized))
    vector_axes = {
        d
        for term in (scale, zero)
        for d, poly in enumerate(definition.axes)
        if isinstance(term, Load) and term.indices == (poly,) and poly is not ZERO
    }
    if None in operands or len(vector_axes) > 1:
        return None
    axes = () if vector_axes else (-1, *range(len(definition.axes)))
    notes = among("axis", axes, "scale and zero point are of the whole tensor")
    attrs = {"axis": vector_axes.pop() if vector_axes else -1, "out_dtype": definition.out.dtype}
    return Proposal(name, (load.tensor.position, *operands), attrs, undetermined=notes)  # type: ignore[arg-type]


def _scale(term: Term) -> int | Constant | None:
    if isinstance(term, Load):
        return term.tensor.position
    return Constant(term.value, term.dtype) if isinstance(term, Const) else None


def _zero_point(term: Term, quantized: str) -> int | Constant | None:
    """The zero point; a literal has the quantised dtype if that is an integer dtype."""
    if isinstance(term, Load):
        return term.tensor.position
    value = literal(term)
    if value is None:
        return None
    if "int" in quantized and value == int(value):
        return Constant(int(value), quantized)
    return Constant(float(value), "float16")
