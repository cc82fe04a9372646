"""What is being done: library code says so, and whoever listens shows it.

with listening(lambda stage, done, total: print(stage, done, total)):
    compile_module(mod)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with the name of a stage, how many of its parts are done, and of how many (0: of none).
Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def stage(name: str, done: int = 0, total: int = 0) -> None:
    """Say that a stage begins, or that ``done`` of its ``total`` parts are done."""
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
