"""Which consecutive definitions are one operator: the reading that LegalizeOps would have made.

Every window of definitions is a candidate. The best partition has, in this order: the fewest
definitions that are not understood; the least *strain*, the difference between the number of
buffers that a window writes and the number that the operator's own lowering writes (a padding stage
and a convolution are one conv2d; two transposes are two); the fewest operators.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace

from ..answer.recover import recover_direct, recover_logical
from ..results.op_info import Answer, Refusal
from ..terms.term import TensorVar
from ..terms.work import share
from .define import TensorDefinition, TensorProgram
from .definition_window import DefinitionWindow, Growing, Recover
from .peel import Peel

#: No operator's lowering writes more buffers.
LONGEST = 24
#: Definitions of which the last one has operators inlined.
INLINED = 4


#: Steps that it is worth to read an understood function as fewer operators.
LAYOUTS = 60_000

#: Definitions that are not understood, strain, operators.
Cost = tuple[int, int, int]
NOTHING, ONE = (0, 0, 0), (0, 0, 1)


@dataclass(frozen=True)
class Part:
    """A window and what it is."""

    window: DefinitionWindow | None
    found: Answer
    definitions: tuple[TensorDefinition, ...]
    strain: int = 0


#: The numbers of the first definition of a window, and of the one after its last.
Span = tuple[int, int]
Parts = dict[Span, Part]


@dataclass(frozen=True)
class Reading:
    """A partition of the first definitions; ordered by cost."""

    cost: Cost = NOTHING
    parts: tuple[Part, ...] = ()

    def then(self, new: tuple[Part, ...]) -> Reading:
        return Reading(_sum(self.cost, *map(_cost, new)), (*self.parts, *new))


def segment(program: TensorProgram, recover: Recover) -> tuple[Part, ...]:
    """The best partition.

    Windows are read with the buffers as they are. What that leaves is asked for over logical
    buffers, which is dear; operators that were inlined are looked for only where one is missing.
    """
    parts = _windows(program, recover)
    best = _best(program, parts)
    if best.cost > ONE:
        _undo_layouts(program, parts, recover, complete=best.cost[:2] == (0, 0))
        best = _best(program, parts)
    return (best if best.cost[0] == 0 else _best(program, parts, Peel(recover))).parts


def _windows(program: TensorProgram, recover: Recover) -> Parts:
    """What each window is, with the buffers as they are."""
    found, parts = program.definitions, {}
    for start in range(len(found)):
        growing = Growing()
        for stop in range(start + 1, min(start + LONGEST, len(found)) + 1):
            part = _part(program, growing, found[stop - 1], recover)
            if part is None:
                break
            parts[start, stop] = part
            if not growing.definitions:
                break
    return parts


def _best(program: TensorProgram, parts: Parts, peel: Peel | None = None) -> Reading:
    count = len(program.definitions)
    best: list[Reading | None] = [Reading(), *(None for _ in range(count))]
    for (start, stop), part in parts.items():
        here, old = best[start], best[stop]
        assert here is not None
        read = _read(part, stop - start, peel)
        if read is not None:
            new = here.then(read)
            if old is None or new.cost < old.cost:
                best[stop] = new
    last = best[-1]
    assert last is not None
    return last


def _read(part: Part, count: int, peel: Peel | None) -> tuple[Part, ...] | None:
    """A window as parts of a partition: one that is not understood is only one if it is alone."""
    if not isinstance(part.found, Refusal):
        return (part,)
    inlined = _peeled(part, peel) if peel and count <= INLINED else None
    return inlined or ((part,) if count == 1 else None)


def _undo_layouts(program: TensorProgram, parts: Parts, recover: Recover, complete: bool) -> None:
    """Ask for windows over logical buffers, as long as one could make the partition better.

    A partition that is ``complete`` could only have fewer operators: that is worth a share of the
    budget, and no refusal when it is used up.
    """
    waiting = {s for s, p in parts.items() if isinstance(p.found, Refusal) and p.window}
    with share(LAYOUTS) if complete else nullcontext():
        while (span := _next(program, parts, waiting)) is not None:
            waiting.remove(span)
            part = parts[span]
            assert part.window is not None
            info = recover(part.window, program, recover_logical)
            if not isinstance(info, Refusal):
                parts[span] = _as(part, info)


def _next(program: TensorProgram, parts: Parts, waiting: Collection[Span]) -> Span | None:
    """The window that would make the partition best if it were one operator."""
    count = len(program.definitions)
    known = [(s, _cost(p)) for s, p in parts.items() if s not in waiting or s[1] - s[0] == 1]
    before, after = {0: NOTHING}, {count: NOTHING}
    for (start, stop), cost in known:
        if start in before:
            new = _sum(before[start], cost)
            before[stop] = min(before.get(stop, new), new)
    for (start, stop), cost in reversed(known):
        if stop in after:
            new = _sum(cost, after[stop])
            after[start] = min(after.get(start, new), new)
    best = min(
        ((_sum(before[i], ONE, after[j]), (i, j)) for i, j in waiting), default=(NOTHING, None)
    )
    return best[1] if best[0] < before[count] else None


def _sum(*costs: Cost) -> Cost:
    unknown, strain, steps = map(sum, zip(*costs, strict=True))
    return unknown, strain, steps


def _peeled(part: Part, peel: Peel) -> tuple[Part, ...] | None:
    """The operators inlined into a window of one result."""
    w = part.window
    if w is None or len(w.writes) != 1 or w.lifted.races:
        return None
    found = peel(TensorDefinition(w.writes[0], w.body, frozenset()))
    if found is None:
        return None
    stages = sum(info.certificate.stages for _, info in found)
    strain = abs(stages - len(part.definitions))
    first, *rest = (Part(v, info, ()) for v, info in found)
    return (replace(first, strain=strain), *rest)


def _part(
    program: TensorProgram, growing: Growing, d: TensorDefinition, recover: Recover
) -> Part | None:
    """The window that the definition completes; None if no operator has as much."""
    if not growing.add(d):
        return None if growing.definitions else Part(None, Refusal(d.problem), (d,))
    chosen = tuple(growing.definitions)
    w = growing.window(_kept(program, chosen))
    return _as(Part(w, Refusal(""), chosen), recover(w, program, recover_direct))


def _as(part: Part, found: Answer) -> Part:
    if isinstance(found, Refusal):
        return replace(part, found=found)
    strain = abs(len(part.definitions) - found.certificate.stages)
    return replace(part, found=found, strain=strain)


def _cost(part: Part) -> Cost:
    return (len(part.definitions) if isinstance(part.found, Refusal) else 0, part.strain, 1)


def _kept(program: TensorProgram, chosen: tuple[TensorDefinition, ...]) -> frozenset[TensorVar]:
    """Buffers of the window that are needed outside."""
    inside = {d.tensor for d in chosen}
    return frozenset(t for t in inside if t in program.outputs or not program.readers[t] <= inside)
