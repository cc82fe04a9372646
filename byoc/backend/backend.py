"""What a backend is: patterns that it takes, layouts that it wants, a converter to code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..patterns.pattern import Pattern
from ..patterns.subgraphs import Coarse
from .region import Region


@dataclass(frozen=True)
class Code:
    """Generated source of one model: one C++ file with a function for each region.

    Each region's symbol is exported with its inputs, then its results, as ``TensorView``.
    ``constants`` are the arrays, by name, that ``__init_<symbol>`` is called with at load time.
    ``options`` go to the compiler, libraries and their paths included. ``rounds`` says, by symbol,
    how a region that is the same in real arithmetic rounds elsewhere than op by op.
    """

    source: str
    symbols: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...] = ()
    options: tuple[str, ...] = ()
    rounds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Backend:
    """A target for regions of a graph.

    ``patterns`` are tried at every op; ``coarse`` takes whole parts of a graph; ``convert`` turns
    all regions of a model into code;
    ``available`` says why it cannot be used here, None if it can; ``wants`` are layouts by operator
    (see `plan_layout`); ``cost`` is that of a region in microseconds, where it is known: what it
    gets has numbers for symbolic extents (`byoc.backend.sized`), and constants of zeros;
    ``version`` is that of its code and library: what was saved for another one is not used.
    """

    name: str
    patterns: tuple[Pattern, ...]
    convert: Callable[[Sequence[Region]], Code]
    available: Callable[[], str | None] = field(default=lambda: None)
    wants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cost: Callable[[Region], float] | None = None
    version: Callable[[], str] = field(default=lambda: "")
    coarse: tuple[Coarse, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Backend: the name must be an identifier, got {self.name!r}")
        if self.name == "tvm":
            raise ValueError("Backend: the name tvm is that of TVM's own code")
        for hook in ("convert", "available", "version", *["cost"] * (self.cost is not None)):
            if not callable(found := getattr(self, hook)):
                raise TypeError(f"Backend {self.name}: {hook} must be a function, got {found!r}")
        for field_, kind in (("patterns", Pattern), ("coarse", Coarse)):
            wrong = [p for p in getattr(self, field_) if not isinstance(p, kind)]
            if wrong:
                raise TypeError(f"Backend {self.name}: {field_} must be of {kind.__name__}, "
                                f"got {wrong[0]!r}")  # fmt: skip

    @cached_property
    def merges(self) -> frozenset[str]:
        """Operators by which its chains go on: what several ops make together may be one."""
        return frozenset(n for p in self.patterns for s in p.steps[1:] for n in s.names)

    @property
    def pattern_names(self) -> tuple[str, ...]:
        """Those of chains and of coarse ones."""
        return (*(p.name for p in self.patterns), *(c.name for c in self.coarse))
