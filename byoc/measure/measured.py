"""The result for a candidate: its time, or why it is excluded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """The median time of a call.

    Attributes:
        microseconds: The time.
    """

    microseconds: float

    def __str__(self) -> str:
        return f"{self.microseconds:.1f} us"


@dataclass(frozen=True)
class Excluded:
    """A candidate that does not build, crashes, hangs or computes a different result.

    Attributes:
        reason: The failure, in words.
    """

    reason: str

    def __str__(self) -> str:
        return f"excluded: {self.reason}"


Result = Measured | Excluded


@dataclass(frozen=True)
class Timing:
    """The measured time of some operators, by a backend or by TVM (``tvm``).

    Attributes:
        backend: The backend whose code was timed.
        ops: The operators.
        shapes: Dtypes and shapes as text, at one assignment of symbolic extents.
        result: The time, or why the candidate was excluded.
        known: Whether the database already contained the result.
    """

    backend: str
    ops: tuple[str, ...]
    shapes: tuple[str, ...]
    result: Result
    known: bool


class MeasureError(RuntimeError):
    """The tracker or its servers are not available for measuring; earlier results are kept."""
