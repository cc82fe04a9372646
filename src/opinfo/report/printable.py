"""Escape control characters, which could manipulate a terminal or fake extra lines."""

from __future__ import annotations

import re

#: Control characters, line separators, and marks of text direction.
_ACTS = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def printable(text: str, keep: str = "") -> str:
    """Escape control characters as in Python strings, except those in ``keep``."""
    return re.sub(
        _ACTS,
        lambda match: match[0] if match[0] in keep else match[0].encode("unicode_escape").decode(),
        text,
    )
