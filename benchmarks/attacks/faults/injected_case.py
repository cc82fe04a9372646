"""A case of `benchmarks.faults`: what is injected where, and what a message must name."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from opinfo.byoc import Backend

from .victim import OTHERS, PLAIN, VICTIM

MARK = "injected"


#: Prepares a case and returns the backends; ``folder`` is empty.
Arrange = Callable[[Path], Sequence[Backend]]


ALL = frozenset((VICTIM, *OTHERS))


@dataclass(frozen=True)
class Case:
    """``loses``: operators that the backend may lose. ``names``: what a message must say.

    ``refused``: nothing can be built, and the raised error must say so. ``runs``: what to run
    instead of compiling with the backends.
    """

    point: str
    failure: str
    arrange: Arrange
    loses: frozenset[str] = frozenset([VICTIM])
    names: tuple[str, ...] = ("plain", MARK)
    refused: bool = False
    runs: str = "compile"

    @property
    def name(self) -> str:
        return f"{self.point}: {self.failure}"


def _recursion() -> None:
    def recurse(text: str) -> None:
        recurse(text)

    try:
        recurse(MARK)
    except RecursionError as error:
        raise RecursionError(f"{MARK}: {error}") from error


def _raise(error: BaseException) -> Callable[[], None]:
    def raising() -> None:
        raise error

    return raising


def _no_text(error: BaseException) -> str:
    raise ValueError("no text")


#: An error of which only the type can be shown.
SPEECHLESS = type(f"Speechless_{MARK}", (Exception,), {"__str__": _no_text})


RAISES: dict[str, Callable[[], None]] = {
    "RecursionError": _recursion,
    "SystemExit": _raise(SystemExit(MARK)),
    "CancelledError": _raise(CancelledError(MARK)),
    "an error without text": _raise(SPEECHLESS()),
    **{kind.__name__: _raise(kind(MARK)) for kind in (
        ValueError, KeyError, MemoryError, TypeError, AssertionError, OSError, ImportError,
        NotImplementedError, ZeroDivisionError, AttributeError, IndexError, StopIteration,
        UnicodeError, tvm.error.InternalError,
    )},
}  # fmt: skip


def arranged(**changes: Any) -> Arrange:
    """Return what arranges the plain backend with some changes."""
    return lambda folder: [replace(PLAIN, **changes)]
