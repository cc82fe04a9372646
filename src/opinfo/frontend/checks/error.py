"""The one error of the front ends, and how foreign errors become one line."""

from __future__ import annotations

import os
import traceback
from pathlib import Path


class FrontendError(ValueError):
    """A model file cannot be read; the message is one line."""


#: Errors whose text alone says little: "'nope'", or nothing.
VAGUE = (LookupError, AttributeError, AssertionError, ArithmeticError, NameError, RecursionError,
         NotImplementedError, MemoryError)  # fmt: skip
PACKAGE = str(Path(os.path.abspath(__file__)).parents[2])


def one_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an error that says something, cut to `limit` characters.

    Its type goes before it where the text needs it to be understood.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    said = next((line for line in lines if line and not line.startswith(("---", "^"))), "")
    text = "".join(c if c.isprintable() else "?" for c in said)
    vague = isinstance(error, VAGUE) or (isinstance(error, TypeError) and not is_ours(error))
    if vague or not text:
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_ours(error: BaseException) -> bool:
    """Whether code of this package raised it, and not what it called."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(PACKAGE + os.sep)
