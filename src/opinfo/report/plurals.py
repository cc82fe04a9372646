"""Numbers of things in words: ``1 region``, ``2 regions``."""

from __future__ import annotations


def count(number: int, thing: str) -> str:
    """A number and the thing in its singular or plural.

    >>> count(1, "region"), count(1200, "call site")
    ('1 region', '1,200 call sites')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
