"""Recognisers: one file a family, discovered automatically.

A recogniser is a pure function from `TensorExpression` to proposals or a `Refusal`.
It may guess: nothing it proposes is handed out before `analysis.certify` has proved it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..registry.registry import modules, recogniser
from ..registry.registry import registered as recognisers

__all__ = ["Matches", "Refuses", "modules", "recogniser", "recognisers"]


@dataclass(frozen=True)
class Matches:
    """A call that must be recognised: ``op(*operands, **attrs)`` on tensors of these types.

    ``operands`` are ``"float32[1, 3, n, n]"`` texts; a repeated letter is one symbolic size, and
    such a letter among ``attrs`` is that size. ``"int8(3)"`` is a constant; scalar operands can be
    attributes too, ``{"x2": 2.0}``.
    ``expect`` are the attributes that must come back, by default ``attrs`` themselves; ``name`` is
    the canonical op that comes back where one compute is several ops, by default ``op``. ``places``
    are the operands' places among the PrimFunc's parameters where those are in another order.
    """

    op: str
    operands: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] | None = None
    name: str | None = None
    places: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Refuses:
    """A TVMScript PrimFunc that must not be recognised as one of the file's ops, and why."""

    why: str
    script: str
