"""Texts of checks that compiled code does by functions of TVM, and what their errors say."""

from __future__ import annotations

import re
from typing import Any

from .tvm_compat import StringImm

_MARK, _END = "opinfo: ", ";"
_ERROR = re.compile(rf"(?:\((-?\d+) vs\. (-?\d+)\) :|is false:) {_MARK}(.*){_END}  ?"
                    r"(?:match_cast error|expect)")  # fmt: skip
#: In a text: the number with which TVM's function compares.
BOUND = "#"


def check_text(text: str) -> Any:
    """Return a text as an argument of TVM's function, which adds numbers to it.

    Args:
        text: What the error says. ``expected`` and what follows it is said of a number, where
            `BOUND` stands for the number that it is compared with.
    """
    return StringImm(f"{_MARK}{text}{_END} ")


def message(error: BaseException) -> str | None:
    """Return what the error of such a check says in one line; None for other errors.

    >>> message(RuntimeError("Check failed: a == b (3 vs. 2) : opinfo: mm: expected #;  match_cast"
    ...                      " error,  shape[0] mismatch"))
    'mm: got 3, expected 2'
    """
    match = _ERROR.search(str(error))
    if match is None:
        return None
    got, bound, text = match.groups()
    start, said, words = text.rpartition("expected ")
    if got is None or not said:  # a reason of its own
        return text
    return f"{start}got {got}, expected {words.replace(BOUND, bound)}"
