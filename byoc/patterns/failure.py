"""Code of somebody else that failed: which, where, why, and what that cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...analysis.terms.work import Exhausted

#: What failed, by the hook of a backend or the stage of a build.
STAGES = {
    "available": "is not available",
    "version": "its version cannot be had",
    "wants": "its layouts cannot be used",
    "condition": "a condition failed",
    "takes": "the sources of an operator cannot be had",
    "cost": "its cost function failed",
    "convert": "its converter failed",
    "compile": "its code does not compile",
    "link": "its code does not link",
    "load": "its library does not load",
    "arity": "its function is called with other arguments",
    "constants": "its constants are not loaded",
    "build": "its code does not build",
}


@dataclass(frozen=True)
class Failure:
    """A backend's code that failed at a ``stage`` of `STAGES`.

    ``ops`` are the operators of the region that it cost and ``value`` is what that makes; both are
    empty where no region was lost. ``now`` names who has these operators instead. ``rule``: the
    condition, the pattern or what else is at fault inside of the backend. ``function``: the Relax
    function that the region is in.
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
        """``lv3 (relax.matmul, relax.minimum)``; empty where no region was lost."""
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
    """What is wrong with a region: a stage of `STAGES`, and why."""

    stage: str
    reason: str


#: What is no failure of the code that it passes through: the user's interrupt, our own budget.
PASSING = (KeyboardInterrupt, Exhausted)


class ForeignError(Exception):
    """What code of somebody else raised, in one line."""


@contextmanager
def foreign() -> Iterator[None]:
    """A block that runs code of somebody else, which may raise ``SystemExit`` as well.

    Raises:
        Raised: for all that the block raises but `PASSING`.
    """
    try:
        yield
    except PASSING:
        raise
    except BaseException as e:
        raise ForeignError(said(e)) from e


def said(e: BaseException) -> str:
    """An error in one line: its type, and of what a compiler said the first error."""
    text = _text(e)
    if isinstance(e, ForeignError):
        return text
    reason = first_error(text)
    return f"{type(e).__name__}: {reason}" if reason else type(e).__name__


def _text(e: BaseException) -> str:
    """The message; an error of somebody else may fail to give one."""
    try:
        return str(e)
    except PASSING:
        raise
    except BaseException as another:
        return f"no text, its __str__ raised {type(another).__name__}"


def first_error(text: str) -> str:
    """Of a compiler's or a linker's output the first error, else the first line with words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("collect2:")]  # that the linker failed
    for pattern in (r"(?<=: )(?:fatal )?error: .*", r"undefined (?:reference|symbol).*",
                    r"cannot find .*", r"multiple definition .*"):  # fmt: skip
        found = next((m.group() for line in lines if (m := re.search(pattern, line))), None)
        if found is not None:
            return found
    return next((line for line in lines if not line.endswith("error:")), "")


def last_line(e: BaseException) -> str:
    """The line of an error of TVM that says why: those before say where it came from."""
    return (str(e).strip() or type(e).__name__).splitlines()[-1].strip()
