"""Text that cannot act on a terminal, and cannot look like more lines than it is."""

from __future__ import annotations

import re

#: Control characters, line separators, and what changes the direction of text.
_ACTS = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"


def printable(text: str, keep: str = "") -> str:
    """Control characters as Python writes them in a string, but for those to ``keep``."""
    return re.sub(
        _ACTS, lambda m: m[0] if m[0] in keep else m[0].encode("unicode_escape").decode(), text
    )
