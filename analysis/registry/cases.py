"""The cases of a recogniser: calls that it must recognise, PrimFuncs that it must refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Matches:
    """A call that must be recognised: ``op(*operands, **attrs)``.

    Attributes:
        op: Full name of the operator, ``relax.nn.relu``.
        operands: Their types, such as ``"float32[1, 3, n, n]"``. A letter is a symbolic size, the
            same in all operands. ``"int8(3)"`` is a constant.
        attrs: Attributes. A letter stands for the symbolic size; ``{"x2": 2.0}`` is a scalar
            operand.
        expect: The attributes that must be recovered, by default ``attrs``.
        name: The operator that must be recovered if several compute the same result; by default
            ``op``.
        places: The operands' positions among the PrimFunc's parameters, by default in order.
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
        why: How it differs from the operator.
        script: The PrimFunc in TVMScript.
    """

    why: str
    script: str
