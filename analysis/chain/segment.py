"""Which consecutive definitions are one operator: the reading that LegalizeOps would have made.

Every window of definitions is a candidate. The best partition has, in this order: the fewest
definitions that are not understood; the least *strain*, the difference between the number of
buffers that a window writes and the number that the operator's own lowering writes (a padding stage
and a convolution are one conv2d; two transposes are two); the fewest operators.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..op_info import OpInfo, Refusal
from ..term import Tensor
from .define import Definition, Program
from .window import Growing, Recover, Window

#: No operator's lowering writes more buffers.
LONGEST = 24


@dataclass(frozen=True)
class Part:
    """A window and what it is."""

    window: Window | None
    found: OpInfo | Refusal
    definitions: tuple[Definition, ...]
    strain: int = 0


@dataclass(frozen=True)
class Reading:
    """A partition of the first definitions; ordered by cost."""

    cost: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[Part, ...] = ()

    def then(self, p: Part) -> Reading:
        unknown, strain, steps = self.cost
        if isinstance(p.found, Refusal):
            unknown += len(p.definitions)
        return Reading((unknown, strain + p.strain, steps + 1), (*self.parts, p))


def segment(program: Program, recover: Recover) -> tuple[Part, ...]:
    """The best partition of the program's definitions."""
    found = program.definitions
    best: list[Reading | None] = [Reading(), *(None for _ in found)]
    for start in range(len(found)):
        here, growing = best[start], Growing()
        assert here is not None
        for stop in range(start + 1, min(start + LONGEST, len(found)) + 1):
            part = _part(program, growing, found[stop - 1], recover)
            if part is None:
                break
            if isinstance(part.found, Refusal) and stop > start + 1:
                continue
            new, old = here.then(part), best[stop]
            if old is None or new.cost < old.cost:
                best[stop] = new
            if not growing.definitions:
                break
    last = best[-1]
    assert last is not None
    return last.parts


def _part(program: Program, growing: Growing, d: Definition, recover: Recover) -> Part | None:
    """The window that the definition completes; None if no operator has as much."""
    if not growing.add(d):
        return None if growing.definitions else Part(None, Refusal(d.problem), (d,))
    chosen = tuple(growing.definitions)
    w = growing.window(_kept(program, chosen))
    info = recover(w, program)
    if isinstance(info, Refusal):
        return Part(w, info, chosen)
    return Part(w, info, chosen, abs(len(chosen) - info.certificate.stages))


def _kept(program: Program, chosen: tuple[Definition, ...]) -> frozenset[Tensor]:
    """Buffers of the window that are needed outside."""
    inside = {d.tensor for d in chosen}
    return frozenset(t for t in inside if t in program.outputs or not program.readers[t] <= inside)
