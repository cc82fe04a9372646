"""Dependences in a dataflow block, and orders of its bindings that keep groups together.

A set of bindings is an integer with bit k for the k-th binding, as a block may have thousands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict, items
from ...layout.graph.relax_graph import Graph, Op

Set = int


@dataclass(frozen=True)
class Dependences:
    """The dependences of a dataflow block.

    Attributes:
        bindings: Its bindings, in order.
        needs: The bindings that each one reads.
        above: The bindings that each one depends on.
        below: The bindings that depend on each one.
        ops: The ``call_tir`` of the block by the number of their binding.
        places: The number of the binding of each op.
        items: Of an op with several results, the bindings of single ones. They do not count as
            bindings: they stand behind the op wherever it stands.
    """

    bindings: tuple[Any, ...]
    needs: tuple[Set, ...]
    above: tuple[Set, ...]
    below: tuple[Set, ...]
    ops: Mapping[int, Op]
    places: Mapping[Op, int]
    items: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)

    def set(self, ops: Sequence[Op]) -> Set:
        """The ops of a sequence that are in this block, as a set."""
        return sum(1 << self.places[op] for op in ops if op in self.places)

    def lines(self, order: Sequence[int]) -> Iterator[Any]:
        """The bindings of the block in an order of their numbers."""
        for k in order:
            yield self.bindings[k]
            yield from self.items.get(k, ())

    def between(self, region: Set) -> Set:
        """The bindings on paths that leave a region and come back; none if it is convex."""
        above = below = 0
        for k in bits(region):
            above |= self.above[k]
            below |= self.below[k]
        return above & below & ~region

    def components(self, region: Set) -> Iterator[Set]:
        """The connected components of a set."""
        read = [0] * len(self.needs)
        for k in bits(region):
            for j in bits(self.needs[k] & region):
                read[j] |= 1 << k
        while region:
            part, todo = 0, region & -region
            while todo:
                part |= todo
                neighbours = 0
                for k in bits(todo):
                    neighbours |= self.needs[k] | read[k]
                todo = neighbours & region & ~part
            region &= ~part
            yield part


def bits(members: Set) -> Iterator[int]:
    """The elements of a set in ascending order."""
    while members:
        low = members & -members
        yield low.bit_length() - 1
        members ^= low


def flows(func: Any, graph: Graph) -> list[Dependences]:
    """The dataflow blocks of a function, those inside branches included, in the program's order."""
    return [_flow(block, graph) for block in _dataflow_blocks(func.body)]


def _dataflow_blocks(body: Any) -> Iterator[Any]:
    for block in items(body.blocks):
        if isinstance(block, relax.DataflowBlock):
            yield block
            continue
        for binding in items(block.bindings):
            for branch in branches_of(binding):
                yield from _dataflow_blocks(branch)


def branches_of(binding: Any) -> tuple[Any, ...]:
    """The branches of a conditional; empty if the binding's value is not one."""
    value = getattr(binding, "value", None)
    return (value.true_branch, value.false_branch) if isinstance(value, relax.If) else ()


def _flow(block: Any, graph: Graph) -> Dependences:
    bindings, parts = _without_items(items(block.bindings), graph)
    needs = _needs(bindings, parts)
    ops = {k: op for k, b in enumerate(bindings) if (op := graph.by_var.get(b.var)) is not None}
    above, below = [0] * len(needs), [0] * len(needs)
    for k, read in enumerate(needs):
        for j in bits(read):
            above[k] |= above[j] | 1 << j
    for k in reversed(range(len(needs))):
        for j in bits(needs[k]):
            below[j] |= below[k] | 1 << k
    return Dependences(
        bindings, needs, tuple(above), tuple(below), ops, {op: k for k, op in ops.items()}, parts
    )


def _without_items(
    bindings: Sequence[Any], graph: Graph
) -> tuple[tuple[Any, ...], dict[int, tuple[Any, ...]]]:
    """The bindings without those that take one result of an op, and these by the op's number."""
    kept: list[Any] = []
    places = NodeDict[int]()
    parts: dict[int, tuple[Any, ...]] = {}
    for binding in bindings:
        place = places.get(whole) if (whole := item_of(binding)) is not None else None
        if place is not None:
            parts[place] = (*parts.get(place, ()), binding)
            continue
        if binding.var in graph.by_var:
            places[binding.var] = len(kept)
        kept.append(binding)
    return tuple(kept), parts


def item_of(binding: Any) -> Any:
    """The variable of a tuple of which a binding takes one element; None for other bindings."""
    value = getattr(binding, "value", None)
    if not isinstance(value, relax.TupleGetItem) or isinstance(binding, relax.MatchCast):
        return None
    return value.tuple_value if isinstance(value.tuple_value, relax.Var) else None


def _needs(bindings: Sequence[Any], parts: Mapping[int, Sequence[Any]]) -> tuple[Set, ...]:
    """The earlier bindings whose variables each binding mentions, also in extents."""
    defined = NodeDict[int]()
    out = []
    for k, binding in enumerate(bindings):
        extents = _variables(binding.ty) if isinstance(binding, relax.MatchCast) else []
        mentioned = [*_variables(binding.value), *_variables(binding.var.ty), *extents]
        read = {defined[v] for v in mentioned if v in defined}
        out.append(sum(1 << j for j in read))
        for own in (binding, *parts.get(k, ())):
            defined[own.var] = k
        for var in extents:
            if var not in defined:
                defined[var] = k
    return tuple(out)


def _variables(expr: Any) -> list[Any]:
    variables: list[Any] = []
    if expr is not None:
        tvm_ffi.structural_walk(expr, (relax.Var, variables.append))
    return variables


def cycle(flow: Dependences, groups: Sequence[Set]) -> list[int] | None:
    """The numbers of groups that depend on each other cyclically; None if there are none."""
    _, remaining = _sorted(flow, groups)
    if not remaining:
        return None
    of = {k: g for g, s in enumerate(groups) for k in bits(s)}
    ring: list[int] = []
    current = next(iter(remaining))
    while current not in ring:  # each remaining one needs another remaining one
        ring.append(current)
        needs = _needs_of(flow, _unit(current, of, groups))
        roots = (_root(k, of, groups) for k in bits(needs))
        current = next(root for root in roots if root in remaining)
    return sorted({of[k] for k in ring[ring.index(current) :] if k in of})


def together(flow: Dependences, groups: Sequence[Set]) -> list[int]:
    """The bindings in an order that keeps each group together.

    Raises:
        ValueError: Groups depend on each other cyclically.
    """
    order, remaining = _sorted(flow, groups)
    if remaining:
        raise ValueError("regions depend on each other cyclically")
    return order


def joined(flow: Dependences, groups: Sequence[Set]) -> Dependences:
    """The block with each group as one unit: a binding above one member is above all members."""
    order, remaining = _sorted(flow, groups)
    if remaining:
        raise ValueError("regions depend on each other cyclically")
    of = {k: g for g, s in enumerate(groups) for k in bits(s)}
    roots = [k for k in order if _root(k, of, groups) == k]
    units = {k: _unit(k, of, groups) for k in roots}
    needs = {k: _needs_of(flow, inside) for k, inside in units.items()}
    above, below = dict.fromkeys(roots, 0), dict.fromkeys(roots, 0)
    for k in roots:
        for j in {_root(j, of, groups) for j in bits(needs[k])}:
            above[k] |= above[j] | units[j]
    for k in reversed(roots):
        for j in {_root(j, of, groups) for j in bits(needs[k])}:
            below[j] |= below[k] | units[k]
    root = [_root(k, of, groups) for k in range(len(flow.needs))]
    return replace(flow, above=tuple(above[k] for k in root), below=tuple(below[k] for k in root))


def _unit(k: int, of: Mapping[int, int], groups: Sequence[Set]) -> Set:
    """The group of a binding, or the binding alone."""
    return groups[of[k]] if k in of else 1 << k


def _needs_of(flow: Dependences, inside: Set) -> Set:
    """What the members of a unit need outside of it."""
    read = 0
    for k in bits(inside):
        read |= flow.needs[k]
    return read & ~inside


def _root(k: int, of: Mapping[int, int], groups: Sequence[Set]) -> int:
    """The binding that represents a group: its last one."""
    return groups[of[k]].bit_length() - 1 if k in of else k


def _sorted(flow: Dependences, groups: Sequence[Set]) -> tuple[list[int], set[int]]:
    """The bindings that can be ordered, and the representatives of the others."""
    of = {k: g for g, s in enumerate(groups) for k in bits(s)}
    units = {k: _unit(k, of, groups) for k in sorted({_root(k, of, groups)
             for k in range(len(flow.bindings))})}  # fmt: skip
    needs = {k: _needs_of(flow, inside) for k, inside in units.items()}
    todo, ordered, order = list(units), 0, []
    while todo:
        waiting = []
        for k in todo:
            if needs[k] & ~ordered:
                waiting.append(k)
                continue
            ordered |= units[k]
            order += list(bits(units[k]))
        if len(waiting) == len(todo):
            break
        todo = waiting
    return order, set(todo)
