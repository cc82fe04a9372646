"""What a session reports about its kernels: events, and the state that `Session.settle` returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """An event of one shape at one call site.

    Attributes:
        what: ``compiled``, ``loaded`` from disk, ``shared`` with another site, ``postponed``
            because the compiler was killed, ``failed``, ``refused`` by the budget, or
            ``evicted``.
        site: The call site.
        shape: The symbolic extents.
        milliseconds: The duration.
        why: The reason, or an empty string.
        rule: The schedule rule of the kernel.
    """

    what: str
    site: str
    shape: tuple[int, ...]
    milliseconds: float
    why: str = ""
    rule: str = ""

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.what} {self.site} [{shape}]: {self.why}"


@dataclass(frozen=True)
class Waiting:
    """A shape that waits for its kernel.

    Attributes:
        site: The call site.
        shape: The symbolic extents.
    """

    site: str
    shape: tuple[int, ...]


#: Events after which a shape stays generic, with a reason worth reading.
REFUSALS = ("failed", "refused")


@dataclass(frozen=True)
class Settled:
    """What became of the shapes that occurred. It is true if none waits for its kernel.

    Attributes:
        done: Whether the wait ended before its timeout.
        events: The events since the previous `settle`, or since the session was opened.
        waiting: The shapes that still wait; empty if ``done``.
        seconds: How long the call waited.
    """

    done: bool
    events: tuple[Event, ...]
    waiting: tuple[Waiting, ...]
    seconds: float

    def __bool__(self) -> bool:
        return self.done

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of events of each kind."""
        return Counter(e.what for e in self.events)

    @property
    def refusals(self) -> tuple[Event, ...]:
        """The events of shapes that stay generic; ``why`` gives the reason."""
        return tuple(e for e in self.events if e.what in REFUSALS)

    def __str__(self) -> str:
        counts = [f"{n} {what}" for what, n in sorted(self.counts.items())]
        counts += [f"{len(self.waiting)} waiting"] if self.waiting else []
        return "; ".join([", ".join(counts) or "no kernel was requested", *map(str, self.refusals)])
