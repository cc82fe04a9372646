"""What became of a candidate: how long it takes, or why it is not to be used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """The median time of a call."""

    microseconds: float

    def __str__(self) -> str:
        return f"{self.microseconds:.1f} us"


@dataclass(frozen=True)
class Excluded:
    """It does not build, crashes, hangs, or computes something else; the reason, for people."""

    reason: str

    def __str__(self) -> str:
        return f"excluded: {self.reason}"


Result = Measured | Excluded


@dataclass(frozen=True)
class Timing:
    """A backend's code for some operators, or TVM's (``tvm``), at one assignment of extents.

    ``known``: it was in the database before, nothing ran.
    """

    backend: str
    ops: tuple[str, ...]
    shapes: tuple[str, ...]
    result: Result
    known: bool


class MeasureError(RuntimeError):
    """Nothing can be measured here: no tracker, no server, no process; what there is is kept."""
