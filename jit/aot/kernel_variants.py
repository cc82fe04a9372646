"""Kernels for some shapes of a symbolic PrimFunc, with the shapes that each one serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...byoc.dims.span import Span
from ..padding import PaddingProof


@dataclass(frozen=True)
class Exact:
    """A static kernel for one shape; ``values`` maps each dimension to its extent."""

    func: Any
    values: Mapping[str, int]

    @property
    def spans(self) -> Mapping[str, Span]:
        return {n: Span(v, v) for n, v in self.values.items()}


@dataclass(frozen=True)
class Ranged:
    """A symbolic kernel for the shapes within ``spans``; unnamed dimensions are unrestricted."""

    func: Any
    spans: Mapping[str, Span]


@dataclass(frozen=True)
class Bucket:
    """A static kernel at ``values`` that also serves smaller shapes over padded copies.

    ``padded`` holds a proof for each dimension that may be smaller, down to ``low`` (1 by default).
    A dimension without a proof is served only at its value.
    """

    func: Any
    values: Mapping[str, int]
    padded: Sequence[PaddingProof]
    low: Mapping[str, int] = field(default_factory=dict)

    @property
    def spans(self) -> Mapping[str, Span]:
        smaller = {p.name for p in self.padded}
        return {
            name: Span(self.low.get(name, 1) if name in smaller else value, value)
            for name, value in self.values.items()
        }


Variant = Exact | Ranged | Bucket
