"""Failures of a backend's code: the function, the stage, the reason, and the lost region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...analysis.terms.term.work_budget import Exhausted

#: The text of each failure, by the hook of a backend or the stage of a build.
STAGES = {
    "available": "is not available",
    "version": "its version function failed",
    "wants": "its layouts cannot be used",
    "condition": "a condition failed",
    "takes": "its takes function failed",
    "cost": "its cost function failed",
    "conversion": "its conversion function failed",
    "convert": "its converter failed",
    "compile": "its code does not compile",
    "link": "its code does not link",
    "load": "its library does not load",
    "arity": "its function takes the wrong number of tensors",
    "plan": "its library has no kernel for it on this device",
    "constants": "its constants are not loaded",
    "build": "its code does not build",
}


@dataclass(frozen=True)
class Failure:
    """A failure of a backend's code.

    Attributes:
        backend: The backend.
        stage: A key of `STAGES`.
        reason: The error, in one line.
        ops: The operators of the region that was lost; empty if none was.
        value: The result of that region.
        rule: The part of the backend that failed, such as a condition or a pattern.
        now: The backends that have these operators instead.
        function: The Relax function that the region is in.
    """

    backend: str
    stage: str
    reason: str
    ops: tuple[str, ...] = ()
    value: str = ""
    rule: str = ""
    now: tuple[str, ...] = ()
    function: str = ""

    @property
    def region(self) -> str:
        """``lv3 (relax.matmul, relax.minimum)``; empty if no region was lost."""
        return f"{self.value} ({', '.join(self.ops)})" if self.value else ", ".join(self.ops)

    def __str__(self) -> str:
        if self.stage == "available":
            return f"{self.backend} {STAGES[self.stage]}: {self.reason}"
        where = f"{self.backend}{f', {self.rule}' if self.rule else ''}"
        if self.region:
            where += f", region {self.region}"
        now = f"; run by {', '.join(self.now)}" if self.now else ""
        return f"{where}: {STAGES[self.stage]}: {self.reason}{now}"


@dataclass(frozen=True)
class Fault:
    """Why a region failed: a key of `STAGES`, and the reason."""

    stage: str
    reason: str


#: Exceptions that are not the backend's failures: an interrupt, and opinfo's own budget.
PASSING = (KeyboardInterrupt, Exhausted)


class ForeignError(Exception):
    """An exception of a backend's code, as one line."""


@contextmanager
def foreign() -> Iterator[None]:
    """Run a block of a backend's code, which may raise anything, ``SystemExit`` included.

    Raises:
        ForeignError: The block raised anything but `PASSING`.
    """
    try:
        yield
    except PASSING:
        raise
    except BaseException as error:
        raise ForeignError(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """An exception as one line: its type and its text; of compiler output, the first error."""
    text = _text(error)
    if isinstance(error, ForeignError):
        return text
    reason = first_error(text)
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__


def _text(error: BaseException) -> str:
    """The message of an exception whose ``__str__`` may raise."""
    try:
        return str(error)
    except PASSING:
        raise
    except BaseException as nested:
        return f"no text, its __str__ raised {type(nested).__name__}"


def first_error(text: str) -> str:
    """The first error in the output of a compiler or linker, else its first line of text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # collect2 only says that the linker failed
    lines = [line for line in lines if not line.startswith("collect2:")]
    for pattern in (r"(?<=: )(?:fatal )?error: .*", r"undefined (?:reference|symbol).*",
                    r"cannot find .*", r"multiple definition .*"):  # fmt: skip
        error = next((match.group() for line in lines if (match := re.search(pattern, line))), None)
        if error is not None:
            return error
    return next((line for line in lines if not line.endswith("error:")), "")
