"""What strings may contain in a TVMScript file."""

from __future__ import annotations

import enum


class StringContent(enum.Enum):
    """What a string literal may contain, by its position."""

    NONE = "no string"
    SHAPE = "an expression"
    DATA = "anything; elements of a list may be anything too"
    ARGUMENT = "anything; elements of a tuple are expressions"
