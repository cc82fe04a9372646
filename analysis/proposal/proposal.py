"""Proposals of recognisers: operators that are not yet certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..terms.term import Int, Var
from .undetermined import Undetermined


@dataclass(frozen=True)
class Constant:
    """An operand that is a literal scalar in the PrimFunc, not a parameter.

    Attributes:
        value: The number, or a term over symbolic sizes.
        dtype: Its dtype.
    """

    value: Any
    dtype: str


@dataclass(frozen=True)
class Proposal:
    """An operator that a recogniser proposes. `op_info` certifies it before returning it.

    Attributes:
        name: The Relax operator, ``relax.nn.conv2d``.
        operands: Positions of the PrimFunc's parameters, in the order of the operator's arguments.
        attrs: The other arguments by name, including literal scalar operands.
        layouts: Layout strings by position of the parameter.
        undetermined: Attributes that could have another value.
        sizes: Symbolic sizes that are assumed to be functions of others, which the certificate
            says. Calls are not raised to such an operator.
    """

    name: str
    operands: tuple[int | Constant, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    layouts: Mapping[int, str] = field(default_factory=dict)
    undetermined: tuple[Undetermined, ...] = ()
    sizes: Mapping[Var, Int] = field(default_factory=dict)
