"""The padding problem: a function at n and, over padded inputs, at N = n + extra.

A term is evaluated twice: at n, and at N with ``n + extra`` substituted for n. Axes and loop
variables have the same values in both; their domains are the valid ones, at n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...analysis.proofs.prove import prove
from ...analysis.terms.condition_terms import conj, negate
from ...analysis.terms.term import FALSE, TRUE, Int, TensorVar, Term, Var, as_int, size
from ...analysis.terms.traversal import free, substitute
from .padding_value import Number

Facts = tuple[Term, ...]
#: Time limit of one query to the provers.
TIMEOUT_MS = 250


class UnprovedPadding(Exception):
    """The claim is not proved; the message says why."""


class UnknownContent(Exception):
    """The proof needs to know the content of a tensor's padding."""

    def __init__(self, tensor: TensorVar) -> None:
        super().__init__(f"the content of the padding of {tensor.name} is unknown")
        self.tensor = tensor


@dataclass
class PaddingProblem:
    """The dimension, the tensors that grow with it, and what their padding holds."""

    dim: Var
    grown: Mapping[TensorVar, tuple[int, ...]]
    contents: Mapping[TensorVar, Number] = field(default_factory=dict)
    finite: bool = False  # whether the proof assumes that valid values are finite
    questions: dict[tuple[Term, Facts], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bigger: Int = as_int(self.dim) + size(f"{self.dim.name} extra")
        self.at_bigger: dict[Var, Term] = {self.dim: self.bigger}

    def at(self, term: Term) -> Any:
        """Return a term at N."""
        return substitute(term, self.at_bigger)

    def depends(self, term: Term) -> bool:
        """Return whether a term depends on the dimension or on a tensor that grows with it."""
        return self.dim in free(term) or not term.reads.isdisjoint(self.grown)

    def holds(self, goal: Term, facts: Facts) -> bool:
        """Return whether the facts provably imply the goal."""
        if goal is TRUE:
            return True
        if goal is FALSE:
            return False
        facts = _related(goal, facts)
        key = (goal, facts)
        answer = self.questions.get(key)
        if answer is None:
            answer = prove(goal, facts, timeout_ms=TIMEOUT_MS).proved
            self.questions[key] = answer
        return answer

    def impossible(self, facts: Facts) -> bool:
        """Return whether the facts contradict each other."""
        if conj(*facts) is FALSE:
            return True
        return self.holds(negate(facts[-1]), facts[:-1])


def _related(goal: Term, facts: Facts) -> Facts:
    """Return the facts connected to the goal by shared variables."""
    connected, candidates = set(free(goal)), list(dict.fromkeys(facts))
    chosen: list[Term] = []
    while True:
        more = [f for f in candidates if not connected.isdisjoint(free(f))]
        if not more:
            return tuple(f for f in dict.fromkeys(facts) if f in chosen)
        chosen += more
        candidates = [f for f in candidates if f not in more]
        for term in more:
            connected |= free(term)
