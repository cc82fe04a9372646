"""The split of the zoo into open and held-out models, by their names, and models chosen since."""

from __future__ import annotations

import hashlib

from .models.last_models import LAST
from .models.later_files import LATER

#: The parts, with the titles of their tables.
PARTS = {"open": "Open", "held out": "Held out", "later": "Chosen later",
         "last": "Chosen last, held out"}  # fmt: skip


def is_open(name: str) -> bool:
    """Return whether work may look at a model; the others only report.

    >>> is_open("squeezenet"), is_open("u2net")
    (True, False)
    """
    return part(name) == "open"


def part(name: str) -> str:
    """Return the part of the zoo that a model is in.

    >>> part("squeezenet"), part("u2net"), part("timm/fastvit_t8"), part("timm/iformer_l")
    ('open', 'held out', 'later', 'last')
    """
    if name in LATER:
        return "later"
    if name in LAST:
        return "last"
    return "held out" if hashlib.sha256(name.encode()).digest()[0] % 2 else "open"
