"""Which consecutive definitions are one operator: the reading that LegalizeOps would have made.

Every window of definitions is a candidate. The best partition has, in this order: the fewest
definitions that are not understood; the least *strain*, the difference between the number of
buffers that a window writes and the number that the operator's own lowering writes (a padding stage
and a convolution are one conv2d; two transposes are two); the fewest operators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..op_info import Answer, Refusal
from ..terms.term import Tensor
from .define import Definition, Program
from .peel import Peel
from .window import Growing, Recover, Window

#: No operator's lowering writes more buffers.
LONGEST = 24
#: Definitions of which the last one has operators inlined.
INLINED = 4


@dataclass(frozen=True)
class Part:
    """A window and what it is."""

    window: Window | None
    found: Answer
    definitions: tuple[Definition, ...]
    strain: int = 0


@dataclass(frozen=True)
class Reading:
    """A partition of the first definitions; ordered by cost."""

    cost: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[Part, ...] = ()

    def then(self, new: tuple[Part, ...]) -> Reading:
        unknown, strain, steps = self.cost
        unknown += sum(len(p.definitions) for p in new if isinstance(p.found, Refusal))
        strain += sum(p.strain for p in new)
        return Reading((unknown, strain, steps + len(new)), (*self.parts, *new))


def segment(program: Program, recover: Recover) -> tuple[Part, ...]:
    """The best partition; operators that were inlined are looked for only where one is missing."""
    best = _best(program, recover)
    return (best if best.cost[0] == 0 else _best(program, recover, Peel(recover))).parts


def _best(program: Program, recover: Recover, peel: Peel | None = None) -> Reading:
    found = program.definitions
    best: list[Reading | None] = [Reading(), *(None for _ in found)]
    for start in range(len(found)):
        here, growing = best[start], Growing()
        assert here is not None
        for stop in range(start + 1, min(start + LONGEST, len(found)) + 1):
            part = _part(program, growing, found[stop - 1], recover)
            if part is None:
                break
            parts: tuple[Part, ...] | None = (part,)
            if isinstance(part.found, Refusal):
                parts = _peeled(part, peel) if peel and stop - start <= INLINED else None
                parts = parts or ((part,) if stop == start + 1 else None)
            if parts is not None:
                new, old = here.then(parts), best[stop]
                if old is None or new.cost < old.cost:
                    best[stop] = new
            if not growing.definitions:
                break
    last = best[-1]
    assert last is not None
    return last


def _peeled(part: Part, peel: Peel) -> tuple[Part, ...] | None:
    """The operators inlined into a window of one result."""
    w = part.window
    if w is None or len(w.writes) != 1 or w.lifted.races:
        return None
    found = peel(Definition(w.writes[0], w.body, frozenset()))
    if found is None:
        return None
    stages = sum(info.certificate.stages for _, info in found)
    strain = abs(stages - len(part.definitions))
    first, *rest = (Part(v, info, ()) for v, info in found)
    return (replace(first, strain=strain), *rest)


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
