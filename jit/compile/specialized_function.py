"""How functions with symbolic shapes are compiled: the result of `specialize_shapes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..config.strategy import Strategy


@dataclass(frozen=True)
class Specialized:
    """A module in which each symbolic function is compiled by its strategy.

    Attributes:
        module: The module.
        functions: How each function with symbolic shapes is compiled.
    """

    module: Any
    functions: tuple[SpecializedFunction, ...]


@dataclass(frozen=True)
class SpecializedFunction:
    """How one function with symbolic shapes is compiled.

    Attributes:
        function: The name of the PrimFunc.
        strategy: Its strategy.
        rule: The rule of its generic schedule; empty for TVM's default.
        why: Why the strategy was limited or replaced; empty if it applies fully.
    """

    function: str
    strategy: Strategy
    rule: str
    why: str = ""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The function, and the names of its strategy and rule, and the reason."""
        return self.function, type(self.strategy).__name__.lower(), self.rule, self.why
