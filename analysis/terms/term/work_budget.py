"""A budget of work for one question, in steps rather than seconds.

A step is about the work of rebuilding one term. Steps are counted by the algorithms, so the same
question ends at the same place on every machine. The processor's clock is a safety net for
uncounted work; its refusal has a reason of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Steps for one question, and seconds of processor time as a safety net.
STEPS, SECONDS = 400_000, 4.5
#: Steps between two readings of the clock.
_LOOK = 200


class Exhausted(BaseException):
    """The budget is exhausted.

    Not an ``Exception``: guards against faulty plug-ins must not treat it as a plug-in's error.
    """


class _Work:
    __slots__ = ("left", "look", "until")

    def __init__(self) -> None:
        self.left, self.look = STEPS, max(STEPS - _LOOK, 0)
        self.until = time.thread_time() + SECONDS


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def budget() -> Iterator[None]:
    """Provide a budget for one question; inside another question, use what that one has left."""
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
    """Limit optional work to `steps` of the budget; exhausting them ends the block."""
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
    work.left = remaining = work.left - steps
    if remaining < work.look:
        if remaining < 0:
            raise Exhausted(f"the budget of {STEPS} steps is exhausted")
        look()
        work.look = max(remaining - _LOOK, 0)


def look() -> None:
    """Check the clock, in work that takes long and counts no steps."""
    work = _work.get()
    if work is not None and time.thread_time() > work.until:
        raise Exhausted(f"the budget of {SECONDS:g} s of CPU time is exhausted")
