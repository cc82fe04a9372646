"""The error of what is not understood."""

from __future__ import annotations


class Unliftable(Exception):
    """A PrimFunc, or a part of it, is not understood; the message has the reason and the place."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{reason} ({where})" if where else reason)
        self.reason, self.where = reason, where
