"""The results of the analysis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from .proofs.equal import Obligation
from .relay.layout import BufferLayout
from .terms.term import Int
from .undetermined import Undetermined

CertificateKind = Literal["rebuilt", "proved", "real", "tested"]
PatternKind = Literal[
    "kElemWise", "kBroadcast", "kInjective", "kCommReduce", "kOutEWiseFusable", "kOpaque"
]

#: Attributes that are layout strings, and the operand that each is of; None is the output.
STRINGS = {"data_layout": 0, "layout": 0, "kernel_layout": 1, "out_layout": None}

#: What every certificate assumes beside what it lists itself.
ASSUMED = (
    "arithmetic of 32 and 64 bit integers does not overflow, nor do casts and shifts of indices "
    "over sizes",
    "accesses that are executed stay inside their buffers",
    "parameters do not alias",
)


@dataclass(frozen=True)
class Constant:
    """An operand that is a literal scalar in the PrimFunc, not a parameter."""

    value: Any
    dtype: str


@dataclass(frozen=True)
class Certificate:
    """Why the answer is right.

    ``rebuilt``: the op built from name and attributes legalises to the same PrimFunc. ``proved``:
    it legalises to a PrimFunc whose comprehension is proved equal. ``tested``: equal on random
    inputs. ``exact`` means bit-equal; otherwise equal up to what ``assumptions`` lists. ``stages``
    is the number of buffers that the op's own lowering writes.
    """

    kind: CertificateKind
    exact: bool
    assumptions: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    stages: int = field(default=1, compare=False)


@dataclass(frozen=True)
class Proposal:
    """What a recogniser believes: nothing is handed out before it is certified.

    ``operands`` are, in the order of the op's arguments, indices of the PrimFunc's parameters;
    scalars that are literals in the compute stand in ``attrs`` under their operand's name.
    ``layouts`` maps parameter indices to layout strings.
    """

    name: str
    operands: tuple[int | Constant, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    layouts: Mapping[int, str] = field(default_factory=dict)
    undetermined: tuple[Undetermined, ...] = ()


@dataclass(frozen=True)
class Relayout:
    """How the buffers of a PrimFunc lie that computes an op in layouts of its own.

    ``attrs`` are those of the op over the logical buffers, which legalises; ``buffers`` say, by
    parameter (None for a size), where the elements of the logical buffer are in the PrimFunc's.
    """

    attrs: Mapping[str, Any]
    buffers: tuple[BufferLayout | None, ...]


@dataclass(frozen=True)
class OpInfo:
    """The operator that a PrimFunc computes.

    ``op(*operands, **attrs)`` with the public constructor that ``name`` names rebuilds it; symbolic
    dimensions in attributes are polynomials over the PrimFunc's sizes. ``layouts`` has one string a
    parameter (empty where the op has no notion of layout). ``relayout`` is there if the buffers are
    packed or permuted: attributes are those of the logical op, layout strings tell the buffers'.
    """

    name: str
    attrs: Mapping[str, Any]
    operands: tuple[int | Constant, ...]
    kind: PatternKind
    layouts: tuple[str, ...]
    certificate: Certificate
    undetermined: tuple[Undetermined, ...] = ()
    alternatives: tuple[OpInfo, ...] = ()
    relayout: Relayout | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    def __bool__(self) -> bool:
        return True

    @property
    def relaid(self) -> bool:
        """Whether the buffers are in layouts that the op itself does not have."""
        return self.relayout is not None

    @property
    def expressed(self) -> bool:
        """Whether layout attributes of the op tell how all buffers lie: axes in another order."""
        if self.relayout is None:
            return True
        logical = self.relayout.attrs
        data = next((a for a in STRINGS if a != "kernel_layout" and a in self.attrs), None)
        if data is None or not isinstance(self.operands[0], int):
            return False
        told: dict[int, bool] = {}
        for key in self.attrs.keys() & STRINGS.keys():
            place, before = STRINGS[key], str(logical.get(key) or logical[data])
            k = self._output if place is None else self.operands[place]
            if not isinstance(k, int):
                return False
            told[k] = sorted(before) == sorted(str(self.attrs[key]))
        if self._output not in told:
            told[self._output] = self.layouts[self._output] == self.layouts[self.operands[0]]
        lie = enumerate(self.relayout.buffers)
        return all(told.get(k, False) or b is None or b.identity for k, b in lie)

    @property
    def _output(self) -> int:
        """The parameter that is written, of an op with one result."""
        assert self.relayout is not None
        buffers = enumerate(self.relayout.buffers)
        return next(k for k, b in buffers if b is not None and k not in self.operands)

    def __repr__(self) -> str:
        inside = [f"%{o}" if isinstance(o, int) else f"{o.value}" for o in self.operands]
        inside += [f"{k}={_plain(v)}" for k, v in self.attrs.items()]
        return f"{self.name}({', '.join(inside)}) : {self.kind}, {self.certificate.kind}"

    def to_json(self) -> dict[str, Any]:
        """A value that ``json.dumps`` takes."""
        return {
            "name": self.name,
            "attrs": {k: to_plain(v) for k, v in self.attrs.items()},
            "operands": [o if isinstance(o, int) else to_plain(o.value) for o in self.operands],
            "kind": self.kind,
            "layouts": list(self.layouts),
            "buffers": [repr(b) for b in self.relayout.buffers] if self.relayout else [],
            "undetermined": [_open(u) for u in self.undetermined],
            "alternatives": [a.to_json() for a in self.alternatives],
            "certificate": {
                "kind": self.certificate.kind,
                "exact": self.certificate.exact,
                "assumptions": list(self.certificate.assumptions),
                "obligations": [
                    {"goal": o.goal, "engine": o.engine, "ms": o.ms}
                    for o in self.certificate.obligations
                ],
            },
        }


@dataclass(frozen=True)
class Refusal:
    """Not recognised: why, and at which place of the PrimFunc or which recogniser."""

    reason: str
    where: str = ""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"not recognised: {self.reason}" + (f" ({self.where})" if self.where else "")

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "where": self.where}


def to_plain(value: Any) -> Any:
    """Attribute values as JSON: symbolic dimensions and index maps become their text."""
    if isinstance(value, Int):
        return value.const if value.const is not None else repr(value)
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    if isinstance(value, Constant):
        return value.value
    plain = value is None or isinstance(value, (str, int, float))
    return value if plain else str(value)


def _open(u: Undetermined) -> dict[str, Any]:
    return {
        "attribute": u.attribute,
        "position": u.position,
        "low": to_plain(u.low),
        "high": to_plain(u.high),
        "values": to_plain(u.values),
        "partner": to_plain(u.partner),
        "reason": u.reason,
    }


def _plain(value: Any) -> str:
    return repr(to_plain(value)) if not isinstance(value, str) else f'"{value}"'
