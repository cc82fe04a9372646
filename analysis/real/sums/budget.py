"""A bound on the size of a form: expanding shared terms can be exponential."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Steps for one form; a step is the visit of one factor of a monomial.
STEPS = 100_000

_budget: ContextVar[list[int]] = ContextVar("steps left", default=[STEPS])  # noqa: B039


class TooLarge(Exception):
    """The form in real arithmetic is too large to expand."""

    def __init__(self) -> None:
        super().__init__("the compute is too large to compare up to rounding")


@contextmanager
def limited() -> Iterator[None]:
    """Provide a separate budget for one form."""
    token = _budget.set([STEPS])
    try:
        yield
    finally:
        _budget.reset(token)


def spend(steps: int) -> None:
    """Count steps; raise `TooLarge` when the budget is used up."""
    remaining = _budget.get()
    remaining[0] -= steps
    if remaining[0] < 0:
        raise TooLarge
