"""What depends on what in a dataflow block, and orders of its bindings that keep groups together.

Sets of bindings are integers, bit k for the k-th binding: a block of thousands has as many sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict, items
from ...layout.graph.relax_graph import Graph, Op

Set = int


@dataclass(frozen=True)
class Dependences:
    """A dataflow block: ``needs`` what each binding reads, ``above`` and ``below`` transitively.

    ``ops`` are its ``call_tir``, by number of their binding; ``places`` are the numbers.
    """

    bindings: tuple[Any, ...]
    needs: tuple[Set, ...]
    above: tuple[Set, ...]
    below: tuple[Set, ...]
    ops: Mapping[int, Op]
    places: Mapping[Op, int]

    def set(self, ops: Sequence[Op]) -> Set:
        """Those of some ops that are in this block."""
        return sum(1 << self.places[op] for op in ops if op in self.places)

    def between(self, region: Set) -> Set:
        """What lies on a path that leaves a region and comes back: empty where it is convex."""
        above = below = 0
        for k in bits(region):
            above |= self.above[k]
            below |= self.below[k]
        return above & below & ~region

    def components(self, region: Set) -> Iterator[Set]:
        """The parts of a set that read each other."""
        read = [0] * len(self.needs)
        for k in bits(region):
            for j in bits(self.needs[k] & region):
                read[j] |= 1 << k
        while region:
            part, todo = 0, region & -region
            while todo:
                part |= todo
                near = 0
                for k in bits(todo):
                    near |= self.needs[k] | read[k]
                todo = near & region & ~part
            region &= ~part
            yield part


def bits(s: Set) -> Iterator[int]:
    """The elements of a set, the smallest first."""
    while s:
        low = s & -s
        yield low.bit_length() - 1
        s ^= low


def flows(func: Any, graph: Graph) -> list[Dependences]:
    """The dataflow blocks of a function, those inside of branches left out."""
    blocks = items(func.body.blocks)
    return [_flow(b, graph) for b in blocks if isinstance(b, relax.DataflowBlock)]


def _flow(block: Any, graph: Graph) -> Dependences:
    bindings = tuple(items(block.bindings))
    needs = _needs(bindings)
    ops = {k: op for k, b in enumerate(bindings) if (op := graph.by_var.get(b.var)) is not None}
    above, below = [0] * len(needs), [0] * len(needs)
    for k, read in enumerate(needs):
        for j in bits(read):
            above[k] |= above[j] | 1 << j
    for k in reversed(range(len(needs))):
        for j in bits(needs[k]):
            below[j] |= below[k] | 1 << k
    return Dependences(
        bindings, needs, tuple(above), tuple(below), ops, {op: k for k, op in ops.items()}
    )


def _needs(bindings: Sequence[Any]) -> tuple[Set, ...]:
    """The earlier bindings whose variables each one mentions, extents among them."""
    made = NodeDict[int]()
    out = []
    for k, b in enumerate(bindings):
        extents = _variables(b.ty) if isinstance(b, relax.MatchCast) else []
        mentioned = [*_variables(b.value), *_variables(b.var.ty), *extents]
        found = {made[v] for v in mentioned if v in made}
        out.append(sum(1 << j for j in found))
        made[b.var] = k
        for v in extents:
            if v not in made:
                made[v] = k
    return tuple(out)


def _variables(e: Any) -> list[Any]:
    found: list[Any] = []
    if e is not None:
        tvm_ffi.structural_walk(e, (relax.Var, found.append))
    return found


def cycle(flow: Dependences, groups: Sequence[Set]) -> list[int] | None:
    """Groups that need each other in a ring, by number; None where each can be done at once."""
    _, left = _sorted(flow, groups)
    if not left:
        return None
    of = {k: g for g, s in enumerate(groups) for k in bits(s)}
    ring: list[int] = []
    here = next(iter(left))
    while here not in ring:  # each of those left needs another one of them
        ring.append(here)
        inside = groups[of[here]] if here in of else 1 << here
        needs = 0
        for k in bits(inside):
            needs |= flow.needs[k]
        here = next(r for k in bits(needs & ~inside) if (r := _root(k, of, groups)) in left)
    return sorted({of[k] for k in ring[ring.index(here) :] if k in of})


def together(flow: Dependences, groups: Sequence[Set]) -> list[int]:
    """The bindings in an order in which each group's stand next to each other.

    Raises ``ValueError`` if groups need each other in a ring.
    """
    order, left = _sorted(flow, groups)
    if left:
        raise ValueError("regions need each other's results")
    return order


def joined(flow: Dependences, groups: Sequence[Set]) -> Dependences:
    """The block where each group is done at once: what is above one of it is above all of it."""
    unit = {k: s for s in groups for k in bits(s)}
    order = together(flow, groups)
    needs = []
    for k in range(len(flow.needs)):
        inside, read = unit.get(k, 1 << k), 0
        for j in bits(inside):
            read |= flow.needs[j]
        needs.append(read & ~inside)
    above, below = [0] * len(needs), [0] * len(needs)
    for k in order:
        for j in bits(needs[k]):
            above[k] |= above[j] | unit.get(j, 1 << j)
    for k in reversed(order):
        for j in bits(needs[k]):
            for member in bits(unit.get(j, 1 << j)):
                below[member] |= below[k] | unit.get(k, 1 << k)
    return replace(flow, above=tuple(above), below=tuple(below))


def _root(k: int, of: Mapping[int, int], groups: Sequence[Set]) -> int:
    """The binding that stands for a group: its last one."""
    return groups[of[k]].bit_length() - 1 if k in of else k


def _sorted(flow: Dependences, groups: Sequence[Set]) -> tuple[list[int], set[int]]:
    """As many bindings as have what they need, and who stands for the others."""
    of = {k: g for g, s in enumerate(groups) for k in bits(s)}
    todo = {_root(k, of, groups) for k in range(len(flow.bindings))}
    done, order = 0, []
    while todo:
        ready = []
        for k in sorted(todo):
            inside = groups[of[k]] if k in of else 1 << k
            needs = 0
            for j in bits(inside):
                needs |= flow.needs[j]
            if not needs & ~inside & ~done:
                ready.append(k)
                done |= inside
                order += list(bits(inside))
        if not ready:
            return order, todo
        todo -= set(ready)
    return order, todo
