"""A function at n and, over padded inputs, at N = n + extra: what both proofs need to know.

A term of the function is read twice: at n as it stands, at N with ``n + extra`` in the place of n.
Axes and loop variables have one value in both; their domains are those at n, the valid ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...analysis.proofs.prove import prove
from ...analysis.terms.scalar import conj, negate
from ...analysis.terms.term import (
    FALSE,
    TRUE,
    Int,
    TensorVar,
    Term,
    Var,
    as_int,
    size,
)
from ...analysis.terms.traversal import free, substitute
from .padding_value import Number

Facts = tuple[Term, ...]
#: Of one question to the provers.
TIMEOUT_MS = 250


class Unproved(Exception):
    """Why the claim is not proved."""


class Needs(Exception):
    """The padding of a tensor must hold something known."""

    def __init__(self, tensor: TensorVar) -> None:
        super().__init__(f"what the padding of {tensor.name} holds is not known")
        self.tensor = tensor


@dataclass
class PaddingProblem:
    """The dimension, the tensors that grow with it, and what their padding holds."""

    dim: Var
    grown: Mapping[TensorVar, tuple[int, ...]]
    contents: Mapping[TensorVar, Number] = field(default_factory=dict)
    finite: bool = False  # whether valid values were taken to be finite numbers
    questions: dict[tuple[Term, Facts], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bigger: Int = as_int(self.dim) + size(f"{self.dim.name} extra")
        self.at_bigger: dict[Var, Term] = {self.dim: self.bigger}

    def at(self, t: Term) -> Any:
        """A term at N."""
        return substitute(t, self.at_bigger)

    def depends(self, t: Term) -> bool:
        """Whether a term is about the dimension or about what grows with it."""
        return self.dim in free(t) or not t.reads.isdisjoint(self.grown)

    def holds(self, goal: Term, facts: Facts) -> bool:
        """Whether the facts imply the goal; False is not known."""
        if goal is TRUE:
            return True
        if goal is FALSE:
            return False
        facts = _related(goal, facts)
        key = (goal, facts)
        found = self.questions.get(key)
        if found is None:
            found = prove(goal, facts, timeout_ms=TIMEOUT_MS).proved
            self.questions[key] = found
        return found

    def impossible(self, facts: Facts) -> bool:
        """Whether facts contradict each other."""
        if conj(*facts) is FALSE:
            return True
        return self.holds(negate(facts[-1]), facts[:-1])


def _related(goal: Term, facts: Facts) -> Facts:
    """The facts that share variables with the goal, or with facts that do."""
    near, rest = set(free(goal)), list(dict.fromkeys(facts))
    chosen: list[Term] = []
    while True:
        more = [f for f in rest if not near.isdisjoint(free(f))]
        if not more:
            return tuple(f for f in dict.fromkeys(facts) if f in chosen)
        chosen += more
        rest = [f for f in rest if f not in more]
        for f in more:
            near |= free(f)
