"""Layouts and backends in one problem.

To the problem of layouts (`layout.search.layout_problem`), in which y[o, i] does op o in way i,
come

x[m] ∈ {0, 1}                      a backend takes match m: ops, each in one of its ways
Σ_{m ∋ (o, i)} x[m] <= y[o, i]     each op is in one region at most, in that region's way
the rows of `rows`   classes of priority come first
minimise  … + Σ (cost[m] - Σ_{o in m} staying[o]) x[m]

A conversion costs the bytes that it moves, a microsecond is worth `BYTES` of them. The rows
of classes are found without the layouts: whatever regions cover, all can be converted around them.
What is kept of the solution are the layouts. In these the matches are chosen as for any module,
which gives the same ones, as nothing better is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...layout.apply.conversion import layouts_of
from ...layout.apply.materialise import materialise
from ...layout.graph.relax_graph import Graph, Op
from ...layout.planner import Planner
from ...layout.report.explain import report
from ...layout.report.plan_report import PlanReport
from ...layout.search.constraints import Desired, check, full
from ...layout.search.decide import Plan, Space, bytes_moved
from ...layout.search.layout_problem import LayoutProblem
from ...layout.search.op_specs import Kinds
from ...layout.search.replay_plan import planned_in
from ...layout.search.solve import NoSolution
from ..backend.backend import Backend
from ..backend.match import Match
from ..matching.lowered import Lowered, match
from ..matching.lowered import found as chains
from ..matching.match_rules import MatchRules
from ..matching.op_variants import Variants
from ..patterns.dependences import bits
from ..patterns.subgraphs import maximal
from .choose import rows
from .plan_file import Laid

if TYPE_CHECKING:
    from ..measure import Measure

#: What moves in a microsecond: 10 GB/s.
BYTES = 1e4


@dataclass(frozen=True)
class ModuleInLayouts:
    """A module in the layouts of a plan; ``layouts`` are those of each op by function."""

    module: Any
    layouts: Mapping[str, tuple[Laid, ...]]
    report: PlanReport


def in_best_layouts(
    lowered: Lowered, backends: Sequence[Backend], rules: MatchRules, desired: Desired | str | None,
    measure: Measure | None = None,
) -> ModuleInLayouts:  # fmt: skip
    """The module in the layouts that are best with these backends.

    ``desired`` are layouts that operators must have; what the backends want is looked at. With
    ``measure`` matches are timed in all layouts, and so is TVM's code.
    """
    offers = [{full(op, f"the wants of {b.name}"): [x] if isinstance(x, str) else x
               for op, x in b.wants.items() if x} for b in backends]  # fmt: skip
    known = Kinds(check(desired or {}), offers=offers, analyse=lowered.analyse)
    planner = Planner(lowered.mod, known, "region", bytes_moved, {}, 60.0)
    plans = {}
    for gvar, g in lowered.functions.items():
        regions = Regions(lowered, gvar, planner, backends, rules, measure)
        plans[gvar] = planner.plan(gvar, g, regions)
    return _relaid(lowered, plans, planner)


def in_layouts(
    lowered: Lowered, layouts: Mapping[str, Sequence[Laid]], status: str
) -> ModuleInLayouts:
    """The module in the layouts of a plan that was saved; each PrimFunc is proved again.

    Raises ``ValueError`` where they do not fit, or a PrimFunc has no proved form in them.
    """
    planner = Planner(
        lowered.mod, Kinds({}, analyse=lowered.analyse), "region", bytes_moved, {}, 60.0
    )
    plans = {}
    for gvar, g in lowered.functions.items():
        told = layouts.get(str(gvar.name_hint), ())
        if len(told) != len(g.ops):
            raise ValueError(
                f"{gvar.name_hint}: layouts of {len(told)} operators, not {len(g.ops)}"
            )
        planner.kinds.update(planner.all_kinds.of(g))
        plan = planned_in(g, dict(zip(g.ops, told, strict=True)), status)
        for op, _ in planner.refused(g, plan):
            raise ValueError(f"{op.name} has no proved form in its layouts")
        plans[gvar] = g, plan
    return _relaid(lowered, plans, planner)


def _relaid(
    lowered: Lowered, plans: Mapping[Any, tuple[Graph, Plan]], planner: Planner
) -> ModuleInLayouts:
    out = materialise(lowered.mod, plans, planner.kinds, planner.rewritten)
    layouts = {str(f.name_hint): tuple(layouts_of(p.layouts(op)) for op in g.ops)
               for f, (g, p) in plans.items()}  # fmt: skip
    told = report(lowered.mod, out, [(g, p, planner.kinds) for g, p in plans.values()])
    return ModuleInLayouts(out, layouts, told)


class Regions:
    """Adds the matches of one function to its problem of layouts.

    ``variants``, ``matches`` and ``numbers``, their variables, are those of the last problem.
    """

    def __init__(
        self, lowered: Lowered, gvar: Any, planner: Planner, backends: Sequence[Backend],
        rules: MatchRules, measure: Measure | None = None,
    ) -> None:  # fmt: skip
        self.lowered, self.planner, self.backends = lowered, planner, backends
        self.rules, self.flows, self.measure = rules, lowered.flows[gvar], measure
        self.mutates = lowered.functions[gvar].mutates
        self.variants: Variants | None = None
        self.matches: tuple[Match, ...] = ()
        self.numbers: tuple[int, ...] = ()

    def __call__(self, space: Space, made: LayoutProblem, unit: float) -> None:
        variants = self.variants = Variants(self.planner, space)
        matches, staying = self.costed(variants)
        self.matches, self.numbers = matches, ()
        plain = [_of_program(m) for m in matches]
        reached = {op for m in plain for op in m.ops}
        must = [op for op in self.rules.must if op in reached]  # of the others dispatch tells why
        try:
            kept = rows(plain, self.rules.classes, must, self.lowered.ring, variants.idle)
        except NoSolution:
            return
        bytes_ = BYTES / unit
        saved = [(m.cost - sum(staying[op] for op in m.ops)) * bytes_ for m in matches]
        numbers = self.numbers = tuple(map(made.program.variable, saved))
        way_of = {(op, way): x for op, way, x in made.ways}
        for op, cost in staying.items() if self.measure is not None else ():
            made.program.cost[way_of[variants.ways[op]]] += cost * bytes_
        inside: dict[int, list[int]] = {}
        for m, x in zip(matches, numbers, strict=True):
            for op in m.ops:
                inside.setdefault(way_of[variants.ways[op]], []).append(x)
        together = [(0.0, {way: 1.0, **dict.fromkeys(xs, -1.0)}) for way, xs in inside.items()]
        made.program.rows += together
        made.program.rows += [(low, {numbers[k]: c for k, c in r.items()}) for low, r in kept]

    def costed(self, variants: Variants) -> tuple[tuple[Match, ...], dict[Op, float]]:
        """The matches, and what each variant costs that stays with TVM, in microseconds.

        Without measuring that is the same in all layouts, so that only matches can save it.
        """
        matches = self.found(variants)
        staying = {op: 0.0 if origin in variants.idle else self.lowered.staying[origin]
                   for op, (origin, _) in variants.ways.items()}  # fmt: skip
        if self.measure is None:
            return tuple(matches), staying
        from ..measure.costs import Costing

        costing = Costing(list(variants.infos), variants.infos, self.backends, self.measure)
        timed = [m for m in costing(matches) if self.rules.usable(_of_program(m))]
        return tuple(timed), staying | costing.alone

    def found(self, variants: Variants) -> list[Match]:
        """All chains, and the largest coarse regions in which nothing is converted."""
        out = chains(list(variants.infos), variants.infos, self.backends, self.mutates)
        for b in self.backends:
            for c in b.coarse:
                taken = [op for op in variants.infos if c.why_not(op, variants.infos) is None]
                for part in _touching(taken):
                    for f in self.flows:
                        for s in maximal(f, f.set([op for op in part if op in f.places])):
                            ops = tuple(part[f.ops[k]] for k in bits(s))
                            out.append(match(b, c.name, ops, variants.infos))
        return [m for m in out if self.rules.usable(_of_program(m))]


def _of_program(m: Match) -> Match:
    """A match of variants as one of the ops that they are variants of."""
    return Match(m.backend, m.pattern, tuple(op.origin or op for op in m.ops), m.cost)


def _touching(ops: Sequence[Op]) -> list[dict[Op, Op]]:
    """Variants that read each other's results, one of each op, by that op."""
    readers: dict[Op, list[Op]] = {}
    inside = set(ops)
    for op in ops:
        near = [u for v in op.outputs for u in v.uses if u in inside]
        for u in near:
            readers.setdefault(op, []).append(u)
            readers.setdefault(u, []).append(op)
    parts: list[dict[Op, Op]] = []
    seen: set[Op] = set()
    for op in ops:
        if op in seen:
            continue
        part: dict[Op, Op] = {}
        todo = [op]
        while todo:
            at = todo.pop()
            if at in seen or at.origin in part:
                continue
            seen.add(at)
            assert at.origin is not None
            part[at.origin] = at
            todo += readers.get(at, ())
        parts.append(part)
    return parts
