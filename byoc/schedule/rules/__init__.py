"""Schedule rules, one in each file, discovered automatically.

A rule emits the loop nest of a kernel, or refuses with a reason. The first rule by precedence that
does not refuse is used.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ....analysis import Refusal
from ...codegen.vector_units import VectorUnits
from ..nest.kernel import Kernel

#: The rules of elements one by one, and of loops as they are.
POINTWISE, SERIAL = "pointwise", "serial"

AxisRun = Callable[[Kernel, VectorUnits], "Any | Refusal"]


@dataclass(frozen=True)
class Rule:
    """A registered rule. Lower ``precedence`` comes first; it is unique."""

    name: str
    precedence: int
    run: AxisRun


_REGISTERED: dict[str, Rule] = {}


def rule(name: str, *, precedence: int) -> Callable[[AxisRun], AxisRun]:
    """Register a rule; raises ``ValueError`` if its name or precedence is in use."""

    def register(run: AxisRun) -> AxisRun:
        for registered in _REGISTERED.values():
            if registered.name == name or registered.precedence == precedence:
                raise ValueError(f"rule {name!r} at precedence {precedence}: taken by "
                                 f"{registered.name!r} at {registered.precedence}")  # fmt: skip
        _REGISTERED[name] = Rule(name, precedence, run)
        return run

    return register


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules by precedence."""
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
    return tuple(sorted(_REGISTERED.values(), key=lambda r: r.precedence))
