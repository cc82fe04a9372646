"""What recognisers give: operators that are believed, not yet certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .undetermined import Undetermined


@dataclass(frozen=True)
class Constant:
    """An operand that is a literal scalar in the PrimFunc, not a parameter."""

    value: Any
    dtype: str


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
