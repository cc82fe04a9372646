"""Rotary position embeddings whose frequencies are divided by factors that are data (LongRoPE).

    out[.., s, h, d] = a * cos(angle) * x[.., s, h, d] + a * sin(angle) * (-x[.., e] or x[.., e])
    angle = scale * position[s] / (factors[k] * base ** (2 * k / rotary_dim))

`analysis.composites.positions.long_rotary` defines the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...composites.positions.long_rotary import LONG
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Int, Load, Term
from ...terms.traversal import subterms
from .._forms.access_functions import literal
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import uncast

_QKV, _HALF, _FULL = "float16[n, 8, 8]", "float32[4]", "float32[8]"


def _case(*operands: str, **attrs: Any) -> Matches:
    attributes = {"base": 10000.0, "rotary_dim": 8, **attrs}
    usual = {"style": "neox", "heads": (), "scale": 1.0, "amplitude": 1.0, "longest": None}
    return Matches(LONG, operands, attributes, {**usual, **attributes})


MATCHES = [
    _case(_QKV, "int32[n]", _FULL, heads=(4, 2, 2), amplitude=1.1902380714238083, longest=4096),
    _case(_QKV, "int32[n]", _FULL, heads=(5, 2, 1), longest=8, scale=0.5, style="gptj"),
    _case("float32[n, 4, 8]", "int64[n]", "float32[4]", rotary_dim=4, longest=16),
    _case("float32[3, 4, 8]", "int64[3]", _HALF, amplitude=1.5),
    _case("bfloat16[2, n, 4, 8]", "int64[n]", _HALF),
    _case("float16[2, 3, 4, 8]", "int32[3]", "float32[2]", rotary_dim=4, style="gptj"),
]

_SCRIPT = """
@T.prim_func(s_tir=True)
def main(px: T.handle, pp: T.handle, f: T.Buffer((8,), "float32"), po: T.handle):
    n = T.int64()
    x = T.match_buffer(px, (n, 4, 8), "float32")
    p = T.match_buffer(pp, (n,), "int32")
    out = T.match_buffer(po, (n, 4, 8), "float32")
    for s, h, d in T.grid(n, 4, 8):
        with T.sblock("rope"):
            vs, vh, vd = T.axis.remap("SSS", [s, h, d])
            out[vs, vh, vd] = (
                T.cos({angle}) * T.float32(1.5) * x[vs, vh, vd]
                + T.sin({angle}) * T.float32({sine})
                * T.if_then_else(vd < 4, x[vs, vh, vd + 4] * T.float32(-1), x[vs, vh, vd - 4]))
"""
_ANGLE = (
    'T.Cast("float32", p[vs]) / (T.if_then_else(n > 16, f[vd % 4], f[vd % 4 + 4]) * '
    'T.pow(T.float32(10000), T.Cast("float32", vd * 2 % 8) / T.float32(8)))'
)


def _refused(why: str, old: str, new: str, sine: str = "1.5") -> Refuses:
    assert old in _ANGLE
    return Refuses(why, _SCRIPT.format(angle=_ANGLE.replace(old, new), sine=sine))


REFUSES = [
    _refused("sines have another amplitude", "16", "16", sine="1.25"),
    _refused("the halves of the factors overlap", "+ 4]", "+ 3]"),
    _refused("the factor of the next pair", "f[vd % 4]", "f[(vd + 1) % 4]"),
    _refused("the factor of the other half of the features", "f[vd % 4]", "f[vd]"),
    _refused("the factors are those of neighbours", "f[vd % 4]", "f[vd // 2]"),
    _refused("the factor multiplies the frequency", ") * T.pow", ") / T.pow"),
    _refused("the power divides the factor", "p[vs]) / (", "p[vs]) * ("),
    _refused("the choice depends on the position", "n > 16", "p[vs] > 16"),
    _refused("the choice depends on the row", "n > 16", "vs > 16"),
    _refused("the frequency of the next feature", "vd * 2 % 8", "(vd * 2 + 2) % 8"),
    _refused("the position of another row", "p[vs]", "p[n - 1 - vs]"),
]


@recogniser("long_rotary_embedding", precedence=158, ops=(LONG,))
def long_rotary_embedding(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match cosine and sine of a position over a factor times a power; the proof does the rest."""
    definition = expression.outputs[0]
    rank = len(definition.axes)
    if len(expression.outputs) not in (1, 3) or rank < 3:
        return Refusal("a rotary embedding has one result, or queries, keys and values")
    waves = [t for t in subterms(definition.body) if isinstance(t, CallTerm) and t.op == "cos"]
    angle = args(waves[0].args[0], "div") if waves else None
    divisor = None if angle is None else args(angle[1], "mul")
    if angle is None or divisor is None or len(divisor) != 2:
        return Refusal("the angle is not divided by a product")
    powers = [p for f in divisor if (p := args(f, "pow")) is not None]
    factors = [t.tensor for f in divisor for t in subterms(f) if isinstance(t, Load)]
    scale, places = _scaled(angle[0])
    if len(powers) != 1 or len(set(factors)) != 1 or not isinstance(places, Load):
        return Refusal("the angle is not a position over a factor times a power of a literal")
    base, exponent = literal(powers[0][0]), args(powers[0][1], "div")
    size = None if exponent is None else literal(exponent[1])
    data = [
        t
        for t in subterms(definition.body)
        if isinstance(t, Load) and len(t.indices) == rank and t.tensor.dtype == definition.out.dtype
    ]
    if base is None or size is None or size != int(size) or not data:
        return Refusal("the power has no literals, or no tensor is turned")
    distances = {(t.indices[-1] - definition.axes[-1]).const for t in data}
    neox = {int(size) // 2, -int(size) // 2} & distances
    heads = [c.out.shape[rank - 2].const for c in expression.outputs]
    whole = factors[0].shape[0].const == int(size)
    attrs = {"base": float(base), "rotary_dim": int(size), "style": "neox" if neox else "gptj",
             "heads": heads if len(heads) > 1 else [], "scale": scale,
             "amplitude": _amplitude(definition.body, waves[0]),
             "longest": _longest(definition.body, definition.out.shape[rank - 3]) if whole
             else None}  # fmt: skip
    operands = (data[0].tensor.position, places.tensor.position, factors[0].position)
    return [Proposal(LONG, operands, attrs)]


def _scaled(places: Term) -> tuple[float, Term]:
    """Positions as a literal factor and the rest."""
    for factor, other in _products(places):
        return factor, uncast(other)
    return 1.0, uncast(places)


def _amplitude(body: Term, wave: CallTerm) -> float:
    """The literal that a cosine is multiplied by; 1 if there is none."""
    calls = (t for t in subterms(body) if isinstance(t, CallTerm) and t.op == "mul")
    return next((n for t in calls for n, other in _products(t) if other is wave), 1.0)


def _products(term: Term) -> Sequence[tuple[float, Term]]:
    """A product as its literal factor and the other one."""
    pair = args(term, "mul")
    if pair is None or len(pair) != 2:
        return ()
    numbers = ((literal(a), b) for a, b in (pair, pair[::-1]))
    return [(float(n), other) for n, other in numbers if n is not None]


def _longest(body: Term, count: Int) -> int | None:
    """The largest number of positions that a choice in a term treats as few."""
    for choice in subterms(body):
        if isinstance(choice, CallTerm) and choice.op == "ite":
            (compared, *_), size = getattr(choice.args[0], "args", (None,)), count.atom
            if not isinstance(compared, Int) or size is None:
                continue
            up, down = (compared - count).const, (compared + count).const
            if up is not None:
                return -up - 1
            if down is not None:
                return down
    return None
