"""Layout strings: ``NCHW``, ``NHWC``, ``NCHW4c``, ``OIHW4i16o``."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: The usual orders of logical axes.
USUAL = ("NCW", "NCHW", "NCDHW", "OIW", "OIHW", "OIDHW", "IOHW")

Digits = tuple[int, int, int | None]
"""Axis, divisor and modulus of ``x // div % mod``."""


def parse(text: str, logical: str = "") -> list[Digits]:
    """The digit of each physical dimension. Raises ``ValueError`` unless this is a layout."""
    parts = re.findall(r"(\d*)([A-Za-z])", text)
    if not parts or "".join(a + b for a, b in parts) != text:
        raise ValueError(f"layout {text!r}: expected letters and factors, as in NCHW4c")
    upper = [c for n, c in parts if c.isupper() and not n]
    if not upper:
        raise ValueError(f"layout {text!r}: expected axes in upper case, as in NHWC or NCHW4c")
    logical = logical or usual(upper)
    if sorted(upper) != sorted(logical):
        raise ValueError(f"layout {text!r}: expected each axis of {logical} once, in upper case")
    out: list[Digits] = []
    inner = dict.fromkeys(logical, 1)
    for factor, letter in reversed(parts):
        axis = logical.find(letter.upper())
        if axis < 0 or bool(factor) == letter.isupper() or factor == "0":
            raise ValueError(
                f"layout {text!r}: {factor + letter!r} is not an axis or split axis of {logical}"
            )
        div = inner[letter.upper()]
        if factor:
            out.append((axis, div, int(factor)))
            inner[letter.upper()] = div * int(factor)
        else:
            out.append((axis, div, None))
            inner[letter.upper()] = 0
        if not div:
            raise ValueError(f"layout {text!r}: factor {factor}{letter} comes before its axis")
    return out[::-1]


def spell(digits: Sequence[Digits], logical: str = "") -> str | None:
    """The string of physical dimensions; None if no string means this layout."""
    rank = 1 + max(d[0] for d in digits) if digits else 0
    logical = logical or _letters(rank)
    text = "".join(
        logical[axis] if mod is None else f"{mod}{logical[axis].lower()}" for axis, _, mod in digits
    )
    try:
        return text if parse(text, logical) == list(digits) else None
    except ValueError:
        return None


def usual(letters: Sequence[str]) -> str:
    """The letters in their usual order; unchanged if they have none."""
    same = (u for u in USUAL if sorted(u) == sorted(letters))
    return next(same, "".join(letters))


def _letters(rank: int) -> str:
    return {3: "NCW", 4: "NCHW", 5: "NCDHW"}.get(rank, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:rank])
