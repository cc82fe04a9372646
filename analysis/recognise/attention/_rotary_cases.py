"""Cases of the recogniser of rotary position embeddings."""

from __future__ import annotations

from typing import Any

from ...registry import Matches, Refuses

QKV, PLACES, SWITCH = "float16[n, 8, 8]", "int32[n]", "int64[]"
LLAMA3 = (0.125, 434.5990979362689, 1 / 3)
LLAMA4 = (8.0, 8192.0, 6.283185307179586)
YARN = (4.0, 1.25, 1.5)


def _case(op: str, *operands: str, **attrs: Any) -> Matches:
    attributes = {"base": 10000.0, "rotary_dim": 8, **attrs}
    usual = {"style": "neox", "heads": (), "scale": 1.0, "scaling": "none", "parameters": (),
             "compute_dtype": "float32"}  # fmt: skip
    return Matches(op, operands, attributes, {**usual, **attributes})


def matched(op: str) -> list[Matches]:
    """Calls that must be recognised."""
    heads = {"heads": (4, 2, 2)}
    return [
        _case(op, QKV, PLACES, SWITCH, **heads),
        _case(op, QKV, PLACES, **heads, rotary_dim=4),
        _case(op, QKV, PLACES, SWITCH, **heads, style="gptj"),
        _case(op, QKV, PLACES, SWITCH, **heads, style="gptj", rotary_dim=4, base=500000.0),
        _case(op, QKV, PLACES, SWITCH, **heads, scaling="llama3", parameters=LLAMA3),
        _case(op, QKV, PLACES, SWITCH, heads=(1, 5, 2), scaling="llama4", parameters=LLAMA4),
        _case(op, QKV, PLACES, SWITCH, **heads, scaling="yarn", parameters=YARN),
        _case(op, "float32[3, 2, 6]", "int64[3]", rotary_dim=6, scale=0.25),
        _case(op, "bfloat16[2, n, 4, 8]", "int64[n]"),
        _case(
            op, "float16[2, n, 4, 8]", "int64[]", compute_dtype="float16", **{"heads": (2, 1, 1)}
        ),
        _case(op, "float32[2, 3, 4, 8]", "int64[]", scale=0.5, style="gptj"),
        _case(op, "float16[2, 3, 4, 8]", "int32[3]", compute_dtype="float16", rotary_dim=4),
        _case(op, "float32[1, 5, 1, 8]", "int32[5]"),
    ]


def matched_tables(op: str) -> list[Matches]:
    """Calls with tables that must be recognised."""

    def case(*operands: str, rotary_dim: int = 8, style: str = "neox") -> Matches:
        return Matches(op, operands, {"rotary_dim": rotary_dim, "style": style})

    return [
        case("float16[1, 4, n, 8]", "float16[1, 1, n, 8]", "float16[1, 1, n, 8]"),
        case("float32[n, 4, 8]", "float32[n, 1, 4]", "float32[n, 1, 4]", rotary_dim=4),
        case("float16[3, 4, 8]", "float32[3, 1, 8]", "float32[3, 1, 8]"),
        case("float32[3, 4, 8]", "float32[3, 1, 8]", "float32[3, 1, 8]", style="gptj"),
        case("float16[n, 8]", "float16[n, 4]", "float16[n, 4]", style="gptj", rotary_dim=4),
    ]


_SCRIPT = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((6, 4, 8), "float32"), p: T.Buffer((6,), "int32"),
         out: T.Buffer((6, 4, 8), "float32")):
    for s, h, d in T.grid(6, 4, 8):
        with T.sblock("rope"):
            vs, vh, vd = T.axis.remap("SSS", [s, h, d])
            out[vs, vh, vd] = (
                T.cos({angle}) * x[vs, vh, vd]
                + T.sin({angle}) * T.if_then_else(vd < 4, {low}, {high}))
"""
_ANGLE = ('T.Cast("float32", p[vs]) / '
          'T.pow(T.float32(10000), T.Cast("float32", vd * 2 % 8) / T.float32(8))')  # fmt: skip
_LOW, _HIGH = "x[vs, vh, vd + 4] * T.float32(-1)", "x[vs, vh, vd - 4]"


def _refused(why: str, angle: str = _ANGLE, low: str = _LOW, high: str = _HIGH) -> Refuses:
    return Refuses(why, _SCRIPT.format(angle=angle, low=low, high=high))


REFUSED = [
    _refused("the sign is in the other half", low=_HIGH.replace("-", "+"), high=f"-{_HIGH}"),
    _refused("no half is negated", low=_LOW.replace("(-1)", "(1)")),
    _refused("the pair is one feature off", low=_LOW.replace("+ 4", "+ 3")),
    _refused("the frequencies are those of neighbours", _ANGLE.replace("vd * 2", "vd // 2 * 2")),
    _refused("the frequency of the next feature", _ANGLE.replace("vd * 2", "(vd * 2 + 2)")),
    _refused("the exponent is not halved", _ANGLE.replace("vd * 2 % 8", "vd")),
    _refused("the position of the next row", _ANGLE.replace("p[vs]", "p[(vs + 1) % 6]")),
    _refused("the position is that of a head", _ANGLE.replace("p[vs]", "p[vh]")),
    _refused("the partner of another head", high="x[vs, 3 - vh, vd - 4]"),
]

_TABLES = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((6, 8), "float32"), c: T.Buffer((6, 8), "float32"),
         s: T.Buffer((6, 8), "float32"), out: T.Buffer((6, 8), "float32")):
    for i, d in T.grid(6, 8):
        with T.sblock("rope"):
            v, vd = T.axis.remap("SS", [i, d])
            out[v, vd] = (
                c[v, vd] * x[v, vd] + s[v, {sine}] * T.if_then_else(vd < 4, {low}, {high}))
"""


def _refused_tables(
    why: str, sine: str = "vd", low: str = "x[v, vd + 4] * T.float32(-1)",
    high: str = "x[v, vd - 4]",
) -> Refuses:  # fmt: skip
    return Refuses(why, _TABLES.format(sine=sine, low=low, high=high))


REFUSED_TABLES = [
    _refused_tables("the sign is in the other half", low="x[v, vd + 4]", high="-x[v, vd - 4]"),
    _refused_tables("no half is negated", low="x[v, vd + 4]"),
    _refused_tables("the halves are of two rows", high="x[5 - v, vd - 4]"),
    _refused_tables("the sine of another feature", sine="7 - vd"),
    _refused_tables("the pair is one feature off", low="x[v, vd + 3] * T.float32(-1)"),
]
