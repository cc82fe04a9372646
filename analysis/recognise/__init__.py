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
    """A call that must be recognised: ``op(*operands, **attrs)``.

    Attributes:
        op: Full name of the operator, ``relax.nn.relu``.
        operands: Their types, ``"float32[1, 3, n, n]"``: a letter is a symbolic size, the same
            wherever it stands. ``"int8(3)"`` is a constant.
        attrs: Attributes; a letter is that size. A scalar operand can be one: ``{"x2": 2.0}``.
        expect: The attributes that must come back, by default ``attrs``.
        name: The canonical operator that comes back where one compute is several, by default
            ``op``.
        places: The operands' positions among the PrimFunc's parameters, by default in their order.
    """

    op: str
    operands: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] | None = None
    name: str | None = None
    places: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Refuses:
    """A PrimFunc that must not be recognised as one of the operators of its recogniser's module.

    Attributes:
        why: What is different from the operator.
        script: The PrimFunc in TVMScript.
    """

    why: str
    script: str
