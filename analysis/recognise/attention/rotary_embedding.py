"""Rotary position embeddings, with the split into queries, keys and values or without.

    out[.., s, h, d] = cos(angle) * x[.., s, h, d] + sin(angle) * (-x[.., e] or x[.., e])
    angle = scale * position[s] / base ** (2 * k / rotary_dim)

`analysis.composites.positions.rotary` defines the operator; only the literals, the operands and the
pairs are read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...composites.positions.rotary import ROTARY
from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, TensorVar, Term, Var
from ...terms.traversal import free, subterms
from .._forms.access_functions import literal
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import uncast
from ._rotary_cases import REFUSED, matched

MATCHES: list[Matches] = matched(ROTARY)
REFUSES: list[Refuses] = REFUSED


@dataclass(frozen=True)
class Angle:
    """``places * frequency``, or ``places / power``: the literals of the power, and the rest."""

    base: float
    size: int
    places: Term
    frequency: Term | None


@recogniser("rotary_embedding", precedence=160, ops=(ROTARY,))
def rotary_embedding(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match cosine and sine of an angle with a power; the literals are the attributes."""
    definition = expression.outputs[0]
    rank = len(definition.axes)
    if len(expression.outputs) not in (1, 3) or rank < 3:
        return Refusal("a rotary embedding has one result, or queries, keys and values")
    waves = {t.op: t for t in _calls(definition.body, "cos", "sin")}
    if len(waves) != 2 or waves["cos"].args != waves["sin"].args:
        return Refusal("there is no cosine and sine of one angle")
    angle = _angle(waves["cos"].args[0])
    data = _data(definition)
    if angle is None or not data:
        return Refusal("the angle has no power of a literal")
    scale, places = _scaled(angle.places)
    position = _operand(expression, places)
    scaling = _scaling(angle)
    if position is None or scaling is None or None in scaling[1]:
        return Refusal("the angle is not a position times a frequency")
    heads = [c.out.shape[rank - 2].const for c in expression.outputs]
    attrs = {"base": angle.base, "rotary_dim": angle.size, "style": _style(data, definition, angle),
             "heads": heads if len(heads) > 1 else [], "scale": scale, "scaling": scaling[0],
             "parameters": scaling[1],
             "compute_dtype": _wave_dtype(definition.body, waves["cos"])}  # fmt: skip
    operands = [data[0].tensor.position, position, *_switches(expression, waves["cos"])]
    return [Proposal(ROTARY, tuple(operands[:3]), attrs)]


def _calls(term: Term, *ops: str) -> Iterator[CallTerm]:
    """The calls of some operations in a term."""
    return (t for t in subterms(term) if isinstance(t, CallTerm) and t.op in ops)


def _angle(term: Term) -> Angle | None:
    power = next(_calls(term, "pow"), None)
    factors = args(term, "div", "mul")
    quotient = None if power is None else args(power.args[1], "div")
    if power is None or quotient is None or factors is None or len(factors) != 2:
        return None
    base, size = literal(power.args[0]), literal(quotient[1])
    if base is None or size is None or size != int(size):
        return None
    places = [f for f in factors if not any(s is power for s in subterms(f))]
    others = [f for f in factors if f not in places]
    if len(places) != 1:
        return None
    frequency = None if uncast(others[0]) is power else others[0]
    return Angle(float(base), int(size), places[0], frequency)


def _data(definition: OutputDefinition) -> list[Load]:
    """The loads of the tensor that is turned."""
    loads = [t for t in subterms(definition.body) if isinstance(t, Load)]
    turned = next((t.tensor for t in loads if len(t.indices) == len(definition.axes)), None)
    return [t for t in loads if t.tensor is turned]


def _style(data: Sequence[Load], definition: OutputDefinition, angle: Angle) -> str:
    distances = {(t.indices[-1] - definition.axes[-1]).const for t in data}
    return "neox" if {angle.size // 2, -angle.size // 2} & distances else "gptj"


def _scaled(places: Term) -> tuple[float, Term]:
    """Positions as a literal factor and the rest."""
    number, other = next(_with_number(places), (1.0, places))
    return number, uncast(other)


def _pairs(operands: tuple[Term, ...] | None) -> Sequence[tuple[Term, Term]]:
    if operands is None or len(operands) != 2:
        return ()
    return ((operands[0], operands[1]), (operands[1], operands[0]))


def _operand(expression: TensorExpression, places: Term) -> int | None:
    """The parameter with the positions, or with the number of positions."""
    loads = [t.tensor.position for t in subterms(places) if isinstance(t, Load)]
    return next(iter([*loads, *_scalars(expression, free(places))]), None)


def _scalars(expression: TensorExpression, variables: frozenset[Var]) -> list[int]:
    """The scalar parameters among variables."""
    params: Sequence[TensorVar | Var] = expression.params
    return [k for k, p in enumerate(params) if isinstance(p, Var) and p in variables]


def _switches(expression: TensorExpression, wave: CallTerm) -> list[int]:
    """The scalars that only the choice between turned and copied data can depend on."""
    body = expression.outputs[0].body
    inside = set(subterms(wave))
    loads = (t for t in subterms(body) if isinstance(t, Load) and t not in inside)
    tensors = [t.tensor.position for t in loads if not t.indices]
    return [*tensors, *_scalars(expression, free(body) - free(wave))]


def _wave_dtype(body: Term, wave: CallTerm) -> str:
    """The dtype in which the features are turned."""
    casts = (t.dtype for t in _calls(body, "cast") if t.args[0] is wave)
    return next(casts, wave.dtype)


def _scaling(angle: Angle) -> tuple[str, list[Any]] | None:
    """The scaling and its parameters; a parameter that is not found is None."""
    term = angle.frequency
    if term is None:
        return "none", []
    products = [p for c in _calls(term, "mul") for p in _with_number(c)]
    quotients = [(c.args[0], literal(c.args[1])) for c in _calls(term, "div")]
    ramps = [(c.args[0], literal(c.args[1])) for c in _calls(term, "sub")]
    comparison = next(_calls(term, "lt"), None)
    if comparison is not None:
        wave = args(comparison.args[1], "div") or comparison.args
        factor = _first(n for _, n in quotients if n is not None)
        return "llama4", [factor, literal(comparison.args[0]), literal(wave[0])]
    for ramp, start in ramps:
        if start is not None and isinstance(uncast(ramp), Var):
            length = _first(n for x, n in quotients if (args(x, "sub") or (None,))[0] is ramp)
            return "yarn", [_first(n for n, x in products if args(x, "pow")), start, length]
        if start is not None:
            slope = _first(n for n, x in _with_number(ramp))
            return "llama3", [_first(n for n, x in products if args(x, "mul")), slope, start]
    return None


def _with_number(term: Term) -> Iterator[tuple[float, Term]]:
    """A product as its literal factor and the other one."""
    for factor, other in _pairs(args(term, "mul")):
        number = literal(factor)
        if number is not None:
            yield float(number), other


def _first(numbers: Iterator[Any]) -> Any:
    return next(numbers, None)
