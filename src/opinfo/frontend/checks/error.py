"""The error of the frontends, and one-line texts of foreign errors."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

#: Limit on the characters of a message, since a file chooses the names in it.
LONGEST = 2000


def shortened(text: str, limit: int) -> str:
    """Return a text without control characters, truncated to `limit` characters."""
    shown = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


class FrontendError(ValueError):
    """A model file cannot be read; the message is one line."""

    def __init__(self, text: str) -> None:
        super().__init__(shortened(text, LONGEST))


#: Errors whose text alone is vague, such as "'nope'", or empty.
VAGUE = (LookupError, AttributeError, AssertionError, ArithmeticError, NameError, RecursionError,
         NotImplementedError, MemoryError)  # fmt: skip
PACKAGE = str(Path(os.path.abspath(__file__)).parents[2])


#: How TVM prints an operator, and a number, in its own messages.
_OPERATOR = re.compile(r'ir\.Op\(span=None.*?name="([^"]*)".*?support_level=-?\d+\)')
_NUMBER = re.compile(r"T\.u?int(?:32|64)\((-?\d+)\)")


def plain(text: str) -> str:
    """Return a message of TVM with the names of operators, and with plain numbers.

    >>> plain('In ir.Op(span=None, name="relax.add", support_level=10), a size of T.int64(4)')
    'In relax.add, a size of 4'
    """
    return _NUMBER.sub(r"\1", _OPERATOR.sub(r"\1", text))


def one_line(error: BaseException, limit: int = 300) -> str:
    """Return the first meaningful line of an error, truncated to `limit` characters.

    The type of the error precedes a vague text, but not one of this package.
    """
    lines = [line.strip() for line in plain(str(error)).splitlines()]
    said = next((line for line in lines if line and not line.startswith(("---", "^"))), "")
    text = shortened(said, limit)
    vague = isinstance(error, (*VAGUE, TypeError))
    if isinstance(error, (TypeError, NotImplementedError)) and is_ours(error):
        vague = False
    if vague or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return shortened(text, limit)


def is_ours(error: BaseException) -> bool:
    """Return whether this package raised an error itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(PACKAGE + os.sep)
