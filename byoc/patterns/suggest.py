"""What would mend a condition that fails, said only where it helps in any module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi


@dataclass(frozen=True, order=True)
class Unmet:
    """A condition that does not hold.

    Attributes:
        reason: Why not.
        mend: What to change so that it holds; empty if unknown.
    """

    reason: str
    mend: str = ""

    def after(self, text: str) -> Unmet:
        """The same, in a sentence that begins so."""
        return replace(self, reason=text + self.reason)


def cast(dtype: str, taken: str) -> str:
    """For an operator of another dtype; integers are not cast."""
    return f"cast to {taken}" if "float" in dtype else ""


def want(op: str, layouts: Sequence[str]) -> str:
    """For an operator in another layout: an option of `opinfo dispatch` and `opinfo compile`.

    >>> want("relax.nn.conv2d", ["NHWC", "OHWI"])
    'want conv2d=NHWC,OHWI'
    """
    return f"want {short(op)}={','.join(layouts)}"


def force(op: str, place: str) -> str:
    """For an operator whose match was not chosen."""
    return f"force {short(op)}={place}"


def bind(shape: Sequence[Any]) -> str:
    """For extents that have to be numbers: the variables in them."""
    found: list[Any] = []
    for e in shape:
        if not isinstance(e, int):
            tvm_ffi.structural_walk(e, (tvm.tirx.Var, found.append))
    names = dict.fromkeys(str(v.name) for v in found)
    return f"bind {', '.join(names)} to a number" if names else ""


def duplicate(op: str) -> str:
    """For a result that is needed in several places."""
    return f"duplicate {op}, one for each use of its result"


def swap(op: str, cast: str) -> str:
    """For a cast that stands before what a pattern goes on with: it rounds elsewhere then."""
    return f"do {op} before {cast}"


def short(op: str) -> str:
    """``relax.nn.conv2d`` as options have it: ``conv2d``."""
    return op.removeprefix("relax.").removeprefix("nn.")
