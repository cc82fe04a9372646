"""How far a form may grow: what is written out from shared terms can be exponentially large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Steps that one form may take; a step is one factor of a monomial that is looked at.
STEPS = 100_000

_left: ContextVar[list[int]] = ContextVar("steps left", default=[STEPS])  # noqa: B039


class TooLarge(Exception):
    """The form in real arithmetic is too large to be written out."""

    def __init__(self) -> None:
        super().__init__("the compute is too large to be compared up to rounding")


@contextmanager
def limited() -> Iterator[None]:
    """A budget of its own for one form."""
    token = _left.set([STEPS])
    try:
        yield
    finally:
        _left.reset(token)


def spend(steps: int) -> None:
    """Count steps; raise `TooLarge` when the budget is used up."""
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise TooLarge
