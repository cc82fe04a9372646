"""Progress: library code reports stages, and a listener may show them.

with listening(lambda stage, done, total: print(stage, done, total)):
    compile_module(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with the name of a stage, the number of finished parts, and their total (0 if unknown).
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def stage(name: str, done: int = 0, total: int = 0) -> None:
    """Report that a stage begins, or that ``done`` of its ``total`` parts are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(name, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener`` for each stage of this thread's work."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
