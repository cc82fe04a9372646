"""The answer of a prover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ...terms.term import Var

Status = Literal["proved", "refuted", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """The answer to one goal: the prover, its milliseconds, and why the goal is not proved.

    A verdict has no truth value: use ``.proved`` or ``.refuted``.
    """

    status: Status
    engine: str
    ms: float = 0.0
    counterexample: Mapping[Var, int] | None = None
    reason: str = ""

    @property
    def proved(self) -> bool:
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        return self.status == "refuted"

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a bool: ask for .proved or .refuted")
