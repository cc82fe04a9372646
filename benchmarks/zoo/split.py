"""The split of the zoo into open and held-out models, fixed by their names."""

from __future__ import annotations

import hashlib


def is_open(name: str) -> bool:
    """Return whether work may look at a model; the others only report.

    >>> is_open("squeezenet"), is_open("u2net")
    (True, False)
    """
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0
