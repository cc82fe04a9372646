"""The cheapest plan of a small graph by trying all of them; shares no problem and no solver."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from typing import Any

from opinfo.layout.alternatives.alternative import Alternative
from opinfo.layout.alternatives.enumerate_alternatives import alternatives, as_given
from opinfo.layout.alternatives.op_spec import OpSpec
from opinfo.layout.graph.read_graph import graph
from opinfo.layout.graph.relax_graph import Graph, Op, Value
from opinfo.layout.model.layout import Layout
from opinfo.layout.plan import check_arguments
from opinfo.layout.search.candidate_layouts import candidates
from opinfo.layout.search.function_plan import OBJECTIVES, bytes_moved, decide
from opinfo.layout.search.op_specs import OpSpecs

from .random_graphs import Case

#: More combinations of ways are not tried.
LIMIT = 20_000
#: Of plans that move as many bytes the one of fewer conversions is best, then of fewer changes.
TIE, CHANGE = 1.0, 1 / 4096


def objectives(case: Case) -> tuple[float, float] | None:
    """What the plan of ``main`` costs, and the least of all plans; None if they are too many."""
    wanted = check_arguments(case.desired, case.mode, case.objective)
    found = graph(case.module, case.module["main"])
    strict = case.mode == "graph"
    specs = OpSpecs(wanted, operators=strict).of(found)
    cost = OBJECTIVES[case.objective]
    known = candidates(found, specs)
    # Ties are broken by parts of what a byte costs.
    rates = [cost(v, x) / bytes_moved(v, x) for v, layouts in known.items()
             if not v.weight and not v.free for x in layouts[1:]]  # fmt: skip
    unit = min(rates, default=1.0)
    least = _least(found, specs, lambda v, x: cost(v, x) / unit, strict)
    if least is None:
        return None
    plan = decide(found, specs, cost, {}, {}, strict=strict)
    return plan.solution.objective, least * unit


def _least(found: Graph, specs: Mapping[Op, OpSpec], cost: Any, strict: bool) -> float | None:
    known = candidates(found, specs)
    ways = []
    for op in found.ops:
        mine = list(alternatives(op, specs[op], known))
        if strict and (specs[op].constraint is None or specs[op].named):
            mine = [*(c.strict for c in mine), as_given(op, specs[op])]
        elif strict:
            mine = [c.strict for c in mine]
        ways.append(mine)
    if math.prod(map(len, ways)) > LIMIT:
        return None
    prices = Prices(known, cost)
    return min(cost_of(found, chosen, prices) for chosen in product(*ways))


def cost_of(found: Graph, chosen: Sequence[Alternative], prices: Prices) -> float:
    """Of one way for each op, with the cheapest conversions that serve all readers."""
    stored = {v: Layout.identity(v.rank) for v in found.values if v.fixed}
    readers: dict[Value, list[frozenset[Layout]]] = {}
    total = 0.0
    for op, way in zip(found.ops, chosen, strict=True):
        if way.moves:
            total += prices.cost(op.outputs[0], Layout.identity(op.outputs[0].rank)) + TIE
        total += way.cost + max(map(_change, op.outputs, way.outputs), default=0.0)
        stored.update(zip(op.outputs, way.outputs, strict=True))
        for v, allowed in zip(op.inputs, way.inputs, strict=True):
            if v is not None and allowed is not None:
                total += 0.0 if Layout.identity(v.rank) in allowed else CHANGE / 16
                readers.setdefault(v, []).append(allowed)
    for v in found.values:
        if v.pinned is not None and not v.free:
            readers.setdefault(v, []).append(frozenset((Layout.identity(v.rank),)))
    return total + sum(prices(v, stored[v], frozenset(r)) for v, r in readers.items())


def _change(v: Value, layout: Layout) -> float:
    """The price of an op that writes a value so: a 64th where the memory stays in its order."""
    same = layout.order(v.shape) == Layout.identity(v.rank).order(v.shape)
    return 0.0 if layout.is_identity else CHANGE / 64 if same else CHANGE


class Prices:
    """The least price of conversions of a value that is stored in a layout, by its readers."""

    def __init__(self, known: Mapping[Value, Sequence[Layout]], cost: Any) -> None:
        self.known, self.cost = known, cost
        self.found: dict[Any, float] = {}

    def __call__(self, v: Value, stored: Layout, readers: frozenset[frozenset[Layout]]) -> float:
        key = (v, stored, readers)
        if key not in self.found:
            self.found[key] = min(self.prices(v, stored, readers))
        return self.found[key]

    def prices(
        self, v: Value, stored: Layout, readers: frozenset[frozenset[Layout]]
    ) -> Iterator[float]:
        own = list(self.known[v])
        for made in _subsets(own):
            here = {stored, *made}
            left = [allowed for allowed in readers if not allowed & here]
            for shapes in _subsets(own):
                orders = [x.order(v.shape) for x in here]
                if all(x.order(v.shape) in orders for x in shapes):
                    if all(allowed & set(shapes) for allowed in left):
                        tie = 0.0 if v.weight else TIE
                        yield sum(self.cost(v, x) + tie for x in made) + len(shapes) * CHANGE / 2
                        break  # smaller ones come first


def _subsets(of: Sequence[Layout]) -> Iterator[tuple[Layout, ...]]:
    return chain.from_iterable(combinations(of, k) for k in range(len(of) + 1))
