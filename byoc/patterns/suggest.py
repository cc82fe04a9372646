"""Suggestions: changes that make a failed condition hold, if they help in any module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi

from ...analysis.support.warn import warn


@dataclass(frozen=True, order=True)
class Unmet:
    """A condition that does not hold.

    Attributes:
        reason: Why it does not hold.
        suggestion: What to change so that it holds; empty if unknown.
    """

    reason: str
    suggestion: str = ""

    @property
    def mend(self) -> str:
        """The old name of `suggestion`."""
        warn("Unmet.mend is deprecated: use Unmet.suggestion", DeprecationWarning)
        return self.suggestion

    def after(self, text: str) -> Unmet:
        """The condition with ``text`` in front of its reason."""
        return replace(self, reason=text + self.reason)


def cast(dtype: str, target: str) -> str:
    """The suggestion for an operator of another dtype; empty for integers."""
    return f"cast to {target}" if "float" in dtype else ""


def want(op: str, layouts: Sequence[str]) -> str:
    """The suggestion for an operator in another layout, as an option of the command line.

    >>> want("relax.nn.conv2d", ["NHWC", "OHWI"])
    'want conv2d=NHWC,OHWI'
    """
    return f"want {short(op)}={','.join(layouts)}"


def force(op: str, place: str) -> str:
    """The suggestion for an operator whose match was not chosen."""
    return f"force {short(op)}={place}"


def bind(shape: Sequence[Any]) -> str:
    """The suggestion for extents that must be numbers."""
    variables: list[Any] = []
    for extent in shape:
        if not isinstance(extent, int):
            tvm_ffi.structural_walk(extent, (tvm.tirx.Var, variables.append))
    names = dict.fromkeys(str(v.name) for v in variables)
    return f"bind {', '.join(names)} to a number" if names else ""


def duplicate(op: str) -> str:
    """The suggestion for a result that is needed in several places."""
    return f"duplicate {op}, one for each use of its result"


def swap(op: str, cast: str) -> str:
    """The suggestion for a cast inside a chain; the swap changes where values are rounded."""
    return f"do {op} before {cast}"


def short(op: str) -> str:
    """The name of an operator in options: ``conv2d`` for ``relax.nn.conv2d``."""
    return op.removeprefix("relax.").removeprefix("nn.")
