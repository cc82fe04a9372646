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

    Attributes:
        op: The Relax operator.
        operands: Types as text, ``"float32[1, 3, n, n]"``; a repeated letter is one symbolic size.
            ``"int8(3)"`` is a constant.
        attrs: Attributes; a letter of `operands` is that size. Scalar operands may stand here,
            ``{"x2": 2.0}``.
        expect: The attributes that must come back; by default `attrs`.
        name: The operator that must come back, where one compute is several; by default `op`.
        places: The operands' positions among the PrimFunc's parameters, where those are in another
            order.
    """

    op: str
    operands: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] | None = None
    name: str | None = None
    places: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Refuses:
    """A PrimFunc that must not be recognised as one of the recogniser's operators.

    Attributes:
        why: What is different about it.
        script: The PrimFunc as TVMScript.
    """

    why: str
    script: str
