"""A budget of work: what one question may cost, counted in steps and not in seconds.

A step is about what rebuilding one term takes. The count is that of the algorithms, so the same
question ends at the same place on every machine. The processor's clock is the net for what is not
counted: its own reason says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Steps of one question; seconds of processor time after which it ends all the same.
STEPS, SECONDS = 400_000, 4.5
#: Steps between two looks at the clock.
_LOOK = 200


class Exhausted(BaseException):
    """The budget is used up.

    No ``Exception``: who guards against faulty plug-ins must not take it for one of theirs.
    """


class _Work:
    __slots__ = ("left", "look", "until")

    def __init__(self) -> None:
        self.left, self.look = STEPS, max(STEPS - _LOOK, 0)
        self.until = time.thread_time() + SECONDS


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def budget() -> Iterator[None]:
    """A budget for one question; inside another question, the rest of that one's."""
    if _work.get() is not None:
        yield
        return
    token = _work.set(_Work())
    try:
        yield
    finally:
        _work.reset(token)


@contextmanager
def share(steps: int) -> Iterator[None]:
    """At most so much of the budget for what can be left undone: using it up ends the block."""
    work = _work.get()
    if work is None:
        yield
        return
    kept = max(work.left - steps, 0)
    work.left, work.look = work.left - kept, max(work.left - kept - _LOOK, 0)
    try:
        yield
    except Exhausted:
        pass
    finally:
        work.left, work.look = max(work.left, 0) + kept, max(work.left + kept - _LOOK, 0)


def spend(steps: int) -> None:
    """Count steps; raise `Exhausted` when the budget is used up."""
    work = _work.get()
    if work is None:
        return
    work.left = left = work.left - steps
    if left < work.look:
        if left < 0:
            raise Exhausted(f"the budget of {STEPS} steps is used up")
        look()
        work.look = max(left - _LOOK, 0)


def look() -> None:
    """Look at the clock: for what takes long and counts no steps."""
    work = _work.get()
    if work is not None and time.thread_time() > work.until:
        raise Exhausted(f"the budget of {SECONDS:g} s of processor time is used up")
