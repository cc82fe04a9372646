"""The results of the analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from ..proofs.proof import Obligation
from ..proposal.answer_values import Structural
from ..proposal.call_op import bind_arguments
from ..proposal.proposal import Constant
from ..proposal.undetermined import Undetermined
from .buffer_layout import BufferLayout
from .plain_values import to_plain

CertificateKind = Literal["rebuilt", "proved", "extern", "kernel", "real", "tested"]
PatternKind = Literal[
    "kElemWise", "kBroadcast", "kInjective", "kCommReduce", "kOutEWiseFusable", "kOpaque"
]

#: Attributes that hold a layout string, and the position of the operand; None is the output.
STRINGS = {"data_layout": 0, "layout": 0, "kernel_layout": 1, "out_layout": None}

#: What every certificate assumes, in addition to its own list.
ASSUMED = (
    "arithmetic of 32 and 64 bit integers does not overflow, nor do casts and shifts of indices "
    "over sizes",
    "accesses that are executed stay inside their buffers",
    "parameters do not alias",
)


@dataclass(frozen=True)
class Certificate:
    """The evidence for an answer.

    Attributes:
        kind: ``rebuilt``: the operator, built from name and attributes, legalises to the same
            PrimFunc. ``proved``: it legalises to one that is proved to compute the same.
            ``extern``: it legalises to one that calls the same extern functions with the same
            operands and arguments; what these compute is documented, not proved. ``kernel``: TVM
            generates this very PrimFunc as a kernel of the operator; that it computes the
            operator's definition is tested with opinfo, not proved. ``real``: the same in real
            arithmetic. ``tested``: the same on random inputs.
        exact: Whether results are bit-equal; otherwise they are equal under `assumptions`.
        assumptions: What the proof assumes, in words.
        obligations: What was proved.
        stages: The number of buffers that the operator's own lowering writes.
        sizes: The assumptions that relate symbolic sizes, which are also in ``assumptions``.
    """

    kind: CertificateKind
    exact: bool
    assumptions: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    stages: int = field(default=1, compare=False)
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class OpInfo(Structural):
    """The operator that a PrimFunc computes on its own buffers.

    ``op(*operands, **attrs)`` rebuilds it with the public constructor that `name` names:
    ``relax.op.nn.conv2d(**info.bind(params))``.

    Attributes:
        name: The Relax operator, ``relax.nn.conv2d``.
        attrs: Its other arguments by name: ``int``, ``float``, ``bool``, ``str``, None, tuples of
            these, and TVM expressions over the PrimFunc's variables. An operand that is a literal
            scalar in the compute is here too, under its argument's name: ``x2`` for ``x + 2``.
        operands: The positions of the PrimFunc's parameters, in the order of the operator's
            arguments.
        kind: The pattern kind, such as ``kOutEWiseFusable``.
        layouts: One layout string for each parameter, which TVM parses; empty where the operator
            has no notion of layout.
        certificate: The evidence for this answer.
        undetermined: Attributes that could have another value.
        alternatives: Other operators that compute the same result, if requested.
        relayout: The operator over logical buffers, if layout attributes such as ``data_layout``
            describe packed or permuted buffers.
        inplace_indices: For each result, the position of the parameter that the PrimFunc updates to
            hold it, or -1 for a parameter that is only written; empty if nothing is updated. This
            is the argument of ``relax.call_tir_inplace``.
    """

    name: str
    attrs: Mapping[str, Any]
    operands: tuple[int | Constant, ...]
    kind: PatternKind
    layouts: tuple[str, ...]
    certificate: Certificate
    undetermined: tuple[Undetermined, ...] = ()
    alternatives: tuple[OpInfo, ...] = ()
    relayout: LayoutNormalised | None = None
    inplace_indices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", MappingProxyType(dict(self.attrs)))

    def __bool__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "attrs": dict(self.attrs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, attrs=MappingProxyType(state["attrs"]))

    def bind(self, params: Sequence[Any] | Mapping[int, Any]) -> dict[str, Any]:
        """Return the arguments of the public constructor, over the caller's operands.

        Args:
            params: The Relax expression for each parameter of the PrimFunc, by position, with a
                known type. Only those in ``operands`` are read.

        Returns:
            Arguments by name, for ``op(**info.bind(params))``: ``attrs``, the operands (one tuple
            where the operator takes one), and literal operands as ``relax.const`` of their type.

        Raises:
            ValueError: `params` lacks a parameter that is an operand.
        """
        return bind_arguments(self.name, self.operands, self.attrs, params)

    @property
    def relaid(self) -> bool:
        """Whether TVM cannot lower the operator in the layouts that its attributes name."""
        return self.relayout is not None

    @property
    def packed(self) -> bool:
        """Whether a layout attribute splits a dimension: ``NCHW4c``."""
        layouts = (str(self.attrs[k]) for k in self.attrs.keys() & STRINGS.keys())
        return any(c.islower() for text in layouts for c in text)

    def __repr__(self) -> str:
        inside = [f"%{o}" if isinstance(o, int) else f"{o.value}" for o in self.operands]
        inside += [f"{k}={_plain(v)}" for k, v in self.attrs.items()]
        return f"{self.name}({', '.join(inside)}) : {self.kind}, {self.certificate.kind}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "name": self.name,
            "attrs": {k: to_plain(v) for k, v in self.attrs.items()},
            "operands": [o if isinstance(o, int) else to_plain(o.value) for o in self.operands],
            "kind": self.kind,
            "layouts": list(self.layouts),
            "buffers": self.relayout.to_json()["buffers"] if self.relayout else [],
            "undetermined": [_open(u) for u in self.undetermined],
            "alternatives": [a.to_json() for a in self.alternatives],
            "certificate": {
                "kind": self.certificate.kind,
                "exact": self.certificate.exact,
                "assumptions": list(self.certificate.assumptions),
                "obligations": [
                    {"goal": obligation.goal, "engine": obligation.engine, "ms": obligation.ms}
                    for obligation in self.certificate.obligations
                ],
            },
        }


@dataclass(frozen=True, eq=False)
class LayoutNormalised(Structural):
    """The operator that a PrimFunc computes over logical buffers.

    The certificate and the pattern kind describe the PrimFunc with its own buffers.

    Attributes:
        logical: The operator over logical buffers; on the PrimFunc's own buffers it computes
            something else.
        buffers: For each parameter, the map from the logical buffer to the PrimFunc's buffer; None
            for a scalar.
        layouts: The same as strings that TVM parses; empty where no string expresses the map.
    """

    logical: OpInfo
    buffers: tuple[BufferLayout | None, ...]
    layouts: tuple[str, ...]

    def __bool__(self) -> bool:
        return True

    @property
    def certificate(self) -> Certificate:
        """The certificate, for the PrimFunc with its own buffers."""
        return self.logical.certificate

    @property
    def kind(self) -> PatternKind:
        """The pattern kind of the PrimFunc with its own buffers."""
        return self.logical.kind

    @property
    def label(self) -> str:
        """A label for people, ``layout_normalised(relax.tan)``; not the name of an operator."""
        return f"layout_normalised({self.logical.name})"

    @property
    def places(self) -> tuple[str, ...]:
        """The layout string of each parameter, or else the index map as text."""
        pairs = zip(self.layouts, self.buffers, strict=True)
        return tuple(text or ("" if b is None or b.identity else b.text) for text, b in pairs)

    def __repr__(self) -> str:
        where = ", ".join(f"%{k} at {text}" for k, text in enumerate(self.places) if text)
        return f"layout_normalised {self.logical!r}; {where}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "layout_normalised": self.logical.to_json(),
            "buffers": [None if b is None else repr(b) for b in self.buffers],
            "layouts": list(self.layouts),
        }


@dataclass(frozen=True)
class Refusal:
    """Why opinfo gives no answer.

    Attributes:
        reason: The condition that failed.
        where: The place in the PrimFunc, the recogniser, or what to do; may be empty.
    """

    reason: str
    where: str = ""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"not recognised: {self.reason}" + (f" ({self.where})" if self.where else "")

    def to_json(self) -> dict[str, Any]:
        """Return the refusal as JSON values."""
        return {"reason": self.reason, "where": self.where}


#: A result of the analysis.
Answer = OpInfo | LayoutNormalised | Refusal


def operator(info: Answer) -> OpInfo | None:
    """Return the operator, over the PrimFunc's own buffers or logical ones; None for a refusal."""
    if isinstance(info, Refusal):
        return None
    return info.logical if isinstance(info, LayoutNormalised) else info


def with_certificate(
    info: OpInfo | LayoutNormalised, certificate: Certificate
) -> OpInfo | LayoutNormalised:
    """Return an answer with another certificate."""
    if isinstance(info, LayoutNormalised):
        return _certified(info, certificate)
    relayout = None if info.relayout is None else _certified(info.relayout, certificate)
    return replace(info, certificate=certificate, relayout=relayout)


def _certified(info: LayoutNormalised, certificate: Certificate) -> LayoutNormalised:
    return replace(info, logical=replace(info.logical, certificate=certificate))


def _open(undetermined: Undetermined) -> dict[str, Any]:
    return {
        "attribute": undetermined.attribute,
        "position": undetermined.position,
        "low": to_plain(undetermined.low),
        "high": to_plain(undetermined.high),
        "values": to_plain(undetermined.values),
        "partner": to_plain(undetermined.partner),
        "reason": undetermined.reason,
    }


def _plain(value: Any) -> str:
    return repr(to_plain(value)) if not isinstance(value, str) else f'"{value}"'
