"""The plan of one Relax function: layouts of values, ways of ops, conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from .candidates import candidates
from .choices import Choice, Kind, as_given, choices, constants, weight
from .graph import Graph, Op, Value
from .layout import Layout
from .problem import CHANGE, problem
from .sizes import size_of
from .solve import Solution, solve

Cost = Callable[[Value, Layout], float]


@dataclass(frozen=True)
class Plan:
    """What to do. ``reads`` has the layout of each tensor input by op and parameter."""

    ways: Mapping[Op, Choice]
    stored: Mapping[Value, Layout]
    converted: Mapping[Value, tuple[Layout, ...]]
    reads: Mapping[Op, Mapping[int, Layout]]
    needed: Mapping[Value, Layout]
    solution: Solution

    def layouts(self, op: Op) -> list[Layout | None]:
        """By parameter of the op's PrimFunc."""
        read = self.reads[op]
        return [*(read.get(k) for k in range(len(op.inputs))), *self.ways[op].outputs]


def bytes_moved(v: Value, layout: Layout) -> float:
    """What is read and written by a conversion of a value, with the padding of the new layout."""
    if v.weight:
        return CHANGE
    return float(weight(v) + size_of(layout.physical(v.shape), v.dtype))


def conversions_counted(v: Value, layout: Layout) -> float:
    """One a conversion; bytes decide between as many."""
    return CHANGE if v.weight else 1e9 + weight(v)


OBJECTIVES: dict[str, Cost] = {"bytes": bytes_moved, "count": conversions_counted}


def decide(
    graph: Graph,
    kinds: Mapping[Op, Kind],
    cost: Cost,
    pins: Mapping[Value, Layout],
    forbidden: Mapping[Op, frozenset[Choice]],
    seconds: float = 60.0,
    strict: bool = False,
) -> Plan:
    """The cheapest plan. ``pins`` are other layouts for the function's parameters.

    ``strict``: operators read the usual layouts only, in which they are operators again.
    """
    found = candidates(graph, kinds)
    for v, layout in pins.items():
        if layout not in found[v]:
            found[v].append(layout)
    needed = {v: Layout.identity(v.rank) for v in graph.values
              if v.pinned is not None and not v.constant}  # fmt: skip
    given = {v: pins.get(v, Layout.identity(v.rank)) for v in graph.values if v.fixed}
    ways = {op: _allowed(op, kinds[op], found, forbidden.get(op), strict) for op in graph.ops}
    cost = functools.cache(cost)
    unit = _unit(found, cost)
    made = problem(graph, ways, found, lambda v, x: cost(v, x) / unit, needed, given)
    solved = solve(made.program, seconds=seconds)
    solved = replace(solved, objective=solved.objective * unit, bound=solved.bound * unit)
    chosen = {op: c for op, c, x in made.ways if x in solved.chosen}
    stored = dict(given)
    for op, c in chosen.items():
        stored.update(zip(op.outputs, c.outputs, strict=True))
    converted: dict[Value, list[Layout]] = {}
    for v, layout, x in made.converted:
        if x in solved.chosen and stored[v] != layout:
            converted.setdefault(v, []).append(layout)
    reads = {op: _reads(op, chosen[op], kinds[op], stored, converted) for op in graph.ops}
    kept = {v: tuple(x) for v, x in converted.items()}
    return Plan(chosen, stored, kept, reads, needed, solved)


def _unit(found: Mapping[Value, list[Layout]], cost: Cost) -> float:
    """What moving a byte costs at least: what breaks ties is worth about as much.

    So a plan in seconds is none in which nothing changes, and what is solved has costs like bytes.
    """
    rates = (cost(v, x) / bytes_moved(v, x) for v, layouts in found.items()
             if not v.weight and not v.free for x in layouts[1:] if bytes_moved(v, x))  # fmt: skip
    return min((r for r in rates if r > 0 and isfinite(r)), default=1.0)


def _allowed(
    op: Op,
    kind: Kind,
    found: Mapping[Value, list[Layout]],
    forbidden: frozenset[Choice] | None,
    strict: bool,
) -> list[Choice]:
    """The ways of an op without those that turned out to have no proof; never none."""
    all_ways = choices(op, kind, found)
    if strict:
        all_ways = list(dict.fromkeys(c.strict for c in all_ways))
    if forbidden is None:
        return all_ways
    left = [c.strict if c in forbidden else c for c in all_ways]
    left = [c for c in left if c not in forbidden]
    given = as_given(op, kind)
    asked = kind.want is not None and not kind.named
    if not left or not (asked or given in left):
        left.append(given)  # which one that took more layouts may have stood for
    return left


def _reads(
    op: Op, way: Choice, kind: Kind, stored: Mapping[Value, Layout],
    converted: Mapping[Value, list[Layout]],
) -> dict[int, Layout]:  # fmt: skip
    out: dict[int, Layout] = {}
    for k, (v, allowed) in enumerate(zip(op.inputs, way.inputs, strict=True)):
        if v is None or allowed is None:
            continue
        here = [stored[v], *converted.get(v, ())]
        orders = {x.order(v.shape): x for x in allowed}
        same = (orders.get(x.order(v.shape)) for x in here)
        direct = next((x for x in here if x in allowed), None)
        out[k] = direct or next(x for x in same if x is not None)
    known = {**out, **{len(op.inputs) + k: x for k, x in enumerate(way.outputs)}}
    return {**out, **constants(op, kind, known)}
