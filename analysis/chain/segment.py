"""Which consecutive definitions form one operator: the partition that LegalizeOps started from.

Every window of definitions is a candidate. The best partition has, in this order: the fewest
definitions that are not understood; the least *strain*, the difference between the number of
buffers that a window writes and the number that the operator's own lowering writes (a padding block
and a convolution are one conv2d; two transposes are two); the fewest operators.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, replace

from ..answer.recover import recover_direct, recover_logical
from ..results.op_info import Answer, Refusal
from ..terms.term import TensorVar
from ..terms.term.work_budget import share
from .definition_window import DefinitionWindow, Growing, Recover
from .inlined_operators import InlinedOperators
from .tensor_program import TensorDefinition, TensorProgram

#: The most buffers that an operator's lowering writes.
LONGEST = 24
#: The most definitions of a window in which inlined operators are searched.
INLINED = 4


#: The budget for reading a function that is understood as fewer operators.
LAYOUTS = 60_000

#: Definitions that are not understood, strain, operators.
Cost = tuple[int, int, int]
NOTHING, ONE = (0, 0, 0), (0, 0, 1)


@dataclass(frozen=True)
class Part:
    """A window, and its operator or why there is none."""

    window: DefinitionWindow | None
    info: Answer
    definitions: tuple[TensorDefinition, ...]
    strain: int = 0


#: The position of a window's first definition, and the one after its last.
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
    """Return the best partition.

    Windows are first read with the buffers as they are declared. Logical buffers are expensive, so
    they are tried only for the remaining windows; inlined operators only where an operator is
    missing.
    """
    parts = _windows(program, recover)
    best = _best(program, parts)
    if best.cost > ONE:
        _undo_layouts(program, parts, recover, complete=best.cost[:2] == (0, 0))
        best = _best(program, parts)
    if best.cost[0] == 0:
        return best.parts
    cut = InlinedOperators(recover)
    return tuple(p for part in _best(program, parts, cut).parts for p in _partly(part, cut))


def _windows(program: TensorProgram, recover: Recover) -> Parts:
    """The operator of each window, with the buffers as they are declared."""
    definitions, parts = program.definitions, {}
    for start in range(len(definitions)):
        growing = Growing()
        for stop in range(start + 1, min(start + LONGEST, len(definitions)) + 1):
            part = _part(program, growing, definitions[stop - 1], recover)
            if part is None:
                break
            parts[start, stop] = part
            if not growing.definitions:
                break
    return parts


def _best(program: TensorProgram, parts: Parts, cut: InlinedOperators | None = None) -> Reading:
    count = len(program.definitions)
    best: list[Reading | None] = [Reading(), *(None for _ in range(count))]
    for (start, stop), part in parts.items():
        before, best_here = best[start], best[stop]
        assert before is not None
        read = _read(part, stop - start, cut)
        if read is not None:
            new = before.then(read)
            if best_here is None or new.cost < best_here.cost:
                best[stop] = new
    last = best[-1]
    assert last is not None
    return last


def _read(part: Part, count: int, cut: InlinedOperators | None) -> tuple[Part, ...] | None:
    """A window as parts of a partition; one that is not understood must be a single definition."""
    if not isinstance(part.info, Refusal):
        return (part,)
    inlined = _inlined(part, cut) if cut and count <= INLINED else None
    return inlined or ((part,) if count == 1 else None)


def _undo_layouts(program: TensorProgram, parts: Parts, recover: Recover, complete: bool) -> None:
    """Try logical buffers for windows that could improve the partition.

    A ``complete`` partition can only improve by having fewer operators. That is worth a share of
    the budget, and exhausting the share is not a refusal.
    """
    waiting = {s for s, p in parts.items() if isinstance(p.info, Refusal) and p.window}
    with share(LAYOUTS) if complete else nullcontext():
        while (span := _next_span(program, parts, waiting)) is not None:
            waiting.remove(span)
            part = parts[span]
            assert part.window is not None
            info = recover(part.window, program, recover_logical)
            if not isinstance(info, Refusal):
                parts[span] = _with_info(part, info)


def _next_span(program: TensorProgram, parts: Parts, waiting: Collection[Span]) -> Span | None:
    """The window that would improve the partition most if it were one operator."""
    count = len(program.definitions)
    costs = [(s, _cost(p)) for s, p in parts.items() if s not in waiting or s[1] - s[0] == 1]
    before, after = {0: NOTHING}, {count: NOTHING}
    for (start, stop), cost in costs:
        if start in before:
            new = _sum(before[start], cost)
            before[stop] = min(before.get(stop, new), new)
    for (start, stop), cost in reversed(costs):
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


def _inlined(part: Part, cut: InlinedOperators) -> tuple[Part, ...] | None:
    """The operators inlined into a window with one result."""
    window = part.window
    if window is None or not _divisible(part):
        return None
    bodies = dict.fromkeys((window.body, window.written))
    pieces = (cut(TensorDefinition(window.writes[0], body, frozenset())) for body in bodies)
    operators = next((p for p in pieces if p is not None), None)
    if operators is None:
        return None
    stages = sum(info.certificate.stages for _, info in operators)
    strain = abs(stages - len(part.definitions))
    first, *remaining = (Part(v, info, ()) for v, info in operators)
    return (replace(first, strain=strain), *remaining)


def _partly(part: Part, cut: InlinedOperators) -> tuple[Part, ...]:
    """A definition that is not understood as operators over formulas that are not."""
    if not isinstance(part.info, Refusal) or not _divisible(part):
        return (part,)
    (definition,) = part.definitions
    pieces = cut.partly(TensorDefinition(definition.tensor, definition.body, frozenset()))
    if not pieces:
        return (part,)
    return tuple(
        Part(None, part.info, (p,)) if isinstance(p, TensorDefinition) else Part(*p, ())
        for p in pieces
    )


def _divisible(part: Part) -> bool:
    """Whether a window is one result that is computed by its formula alone.

    A part of an update is not an operator over whole tensors.
    """
    window = part.window
    if window is None or len(window.writes) != 1 or window.lifted.races:
        return False
    return not any(d.updates for d in part.definitions)


def _part(
    program: TensorProgram, growing: Growing, definition: TensorDefinition, recover: Recover
) -> Part | None:
    """The window that the definition completes; None if no operator is that large."""
    if not growing.add(definition):
        return (
            None if growing.definitions else Part(None, Refusal(definition.problem), (definition,))
        )
    chosen = tuple(growing.definitions)
    window = growing.window(_outputs(program, chosen))
    info = recover(window, program, recover_direct)
    results = tuple(t for t in program.outputs if t in window.writes)
    if (
        isinstance(info, Refusal)
        and len(results) == len(window.writes)
        and results != window.writes
    ):
        # the results of an operator have the order of the parameters, not that of the statements
        ordered = growing.ordered(results)
        reordered = recover(ordered, program, recover_direct)
        if not isinstance(reordered, Refusal):
            window, info = ordered, reordered
    return _with_info(Part(window, Refusal(""), chosen), info)


def _with_info(part: Part, info: Answer) -> Part:
    if isinstance(info, Refusal):
        return replace(part, info=info)
    strain = abs(len(part.definitions) - info.certificate.stages)
    return replace(part, info=info, strain=strain)


def _cost(part: Part) -> Cost:
    return (len(part.definitions) if isinstance(part.info, Refusal) else 0, part.strain, 1)


def _outputs(program: TensorProgram, chosen: tuple[TensorDefinition, ...]) -> frozenset[TensorVar]:
    """Buffers of the window that are read outside, or are outputs."""
    inside = {d.tensor for d in chosen}
    return frozenset(t for t in inside if t in program.outputs or not program.readers[t] <= inside)
