"""The layout-and-dispatch ILP: layouts and backends chosen in one problem.

In the layout problem (`layout.search.layout_problem`), y[o, i] says that op o has alternative i.
This module adds

x[m] ∈ {0, 1}                      a backend takes match m: ops, each in one alternative
Σ_{m ∋ (o, i)} x[m] <= y[o, i]     an op is in at most one region, in that region's alternative
the rows of `choose.rows`          higher priority classes win
minimise  … + Σ (cost[m] - Σ_{o in m} staying[o]) x[m]

A conversion costs the bytes that it moves, or as many as move in the time that a calibration or the
backends' device says; a microsecond counts as `BYTES` bytes. The rows of classes do not depend on
layouts, as any region can be surrounded by conversions. Only the layouts of the solution are kept.
The matches are then chosen as for any module in these layouts, which gives the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....layout.apply.conversion import layouts_of
from ....layout.apply.materialise import materialise
from ....layout.graph.relax_graph import Graph, Op, Value
from ....layout.model.layout import Layout
from ....layout.planner import Planner
from ....layout.report.explain import report
from ....layout.report.plan_report import PlanReport
from ....layout.search.constraints import Desired, check, full
from ....layout.search.function_plan import Cost, Plan, SearchSpace, bytes_moved
from ....layout.search.layout_problem import LayoutProblem
from ....layout.search.op_specs import OpSpecs
from ....layout.search.replay_plan import planned_in
from ....layout.search.solve import NoSolution
from ...backend.backend import Backend
from ...backend.match import Match
from ...calibration.cost_model import CostModel
from ...costing.costing_of import costing_of
from ...matching.lowered import Lowered, chains, match
from ...matching.match_rules import MatchRules
from ...matching.op_variants import Variants
from ...patterns.dependences import bits
from ...patterns.subgraphs import maximal
from .choose import rows
from .plan_file import Laid

if TYPE_CHECKING:
    from ...measure import Measure

#: Bytes that move in a microsecond, at 10 GB/s.
BYTES = 1e4


@dataclass(frozen=True)
class ModuleInLayouts:
    """A module in the layouts of a plan; ``layouts`` has those of each op, by function."""

    module: Any
    layouts: Mapping[str, tuple[Laid, ...]]
    report: PlanReport


def in_best_layouts(
    lowered: Lowered, backends: Sequence[Backend], rules: MatchRules, desired: Desired | str | None,
    measure: Measure | None = None, model: CostModel | None = None,
) -> ModuleInLayouts:  # fmt: skip
    """The module in the layouts that are best with these backends.

    Args:
        lowered: The module.
        backends: The backends that may take operators; the layouts that they want are candidates.
        rules: Which matches may be chosen.
        desired: The layouts that operators must have.
        measure: Time matches and TVM's code in all layouts.
        model: Cost conversions, and unless measured TVM's code, by a calibration.
    """
    offers = [{full(op, f"backend {b.name}, wants"): [x] if isinstance(x, str) else x
               for op, x in b.wants.items() if x} for b in backends]  # fmt: skip
    specs = OpSpecs(check(desired or {}), offers=offers, proofs=lowered.proofs)
    planner = Planner(lowered.mod, specs, "region", _conversion_cost(model, backends), {}, 60.0)
    plans = {}
    for gvar, graph in lowered.functions.items():
        regions = RegionVariables(lowered, gvar, planner, backends, rules, measure, model)
        plans[gvar] = planner.plan(gvar, graph, regions)
    return _module_in_layouts(lowered, plans, planner)


def in_layouts(
    lowered: Lowered, layouts: Mapping[str, Sequence[Laid]], status: str
) -> ModuleInLayouts:
    """The module in the layouts of a saved plan; each PrimFunc is proved again.

    Raises:
        ValueError: The layouts do not fit, or a PrimFunc has no proved form in them.
    """
    planner = Planner(
        lowered.mod, OpSpecs({}, proofs=lowered.proofs), "region", bytes_moved, {}, 60.0
    )
    plans = {}
    for gvar, graph in lowered.functions.items():
        saved = layouts.get(str(gvar.name_hint), ())
        if len(saved) != len(graph.ops):
            raise ValueError(
                f"{gvar.name_hint}: layouts of {len(saved)} operators, expected {len(graph.ops)}"
            )
        planner.spec_by_op.update(planner.specs.of(graph))
        plan = planned_in(graph, dict(zip(graph.ops, saved, strict=True)), status)
        for op, *_ in planner.refused(graph, plan):
            raise ValueError(f"{op.name} has no proved form in its layouts")
        plans[gvar] = graph, plan
    return _module_in_layouts(lowered, plans, planner)


def _module_in_layouts(
    lowered: Lowered, plans: Mapping[Any, tuple[Graph, Plan]], planner: Planner
) -> ModuleInLayouts:
    out = materialise(lowered.mod, plans, planner.spec_by_op, planner.rewritten)
    layouts = {str(f.name_hint): tuple(layouts_of(p.layouts(op)) for op in g.ops)
               for f, (g, p) in plans.items()}  # fmt: skip
    planned = report(lowered.mod, out, planner.parts(plans))
    return ModuleInLayouts(out, layouts, planned)


class RegionVariables:
    """Adds the matches of one function to its layout problem.

    Attributes:
        variants: The variants of the last problem.
        matches: Its matches.
        numbers: The variables of these matches.
    """

    def __init__(
        self, lowered: Lowered, gvar: Any, planner: Planner, backends: Sequence[Backend],
        rules: MatchRules, measure: Measure | None = None, model: CostModel | None = None,
    ) -> None:  # fmt: skip
        self.lowered, self.planner, self.backends, self.model = lowered, planner, backends, model
        self.rules, self.flows, self.measure = rules, lowered.flows[gvar], measure
        self.variants: Variants | None = None
        self.matches: tuple[Match, ...] = ()
        self.numbers: tuple[int, ...] = ()

    def __call__(self, space: SearchSpace, problem: LayoutProblem, unit: float) -> None:
        variants = self.variants = Variants(self.planner, space)
        matches, staying = self.costed(variants)
        self.matches, self.numbers = matches, ()
        plain = [_of_program(m) for m in matches]
        reached = {op for m in plain for op in m.ops}
        must = [op for op in self.rules.must if op in reached]  # dispatch says why for the others
        try:
            kept = rows(plain, self.rules.classes, must, self.lowered.ring, variants.idle)
        except NoSolution:
            return
        bytes_ = BYTES / unit
        saved = [(m.cost - sum(staying[op] for op in m.ops)) * bytes_ for m in matches]
        numbers = self.numbers = tuple(map(problem.program.variable, saved))
        variable_of = {(op, choice): y for op, choice, y in problem.alternatives}
        if self.measure is not None or self.model is not None:
            for y, cost in _staying_costs(problem, variants, staying).items():
                problem.program.cost[y] += cost * bytes_
        inside: dict[int, list[int]] = {}
        for candidate, variable in zip(matches, numbers, strict=True):
            for op in candidate.ops:
                inside.setdefault(variable_of[variants.origins[op]], []).append(variable)
        together = [(0.0, {y: 1.0, **dict.fromkeys(xs, -1.0)}) for y, xs in inside.items()]
        problem.program.rows += together
        problem.program.rows += [(low, {numbers[k]: c for k, c in r.items()}) for low, r in kept]

    def costed(self, variants: Variants) -> tuple[tuple[Match, ...], dict[Op, float]]:
        """The matches, and the cost of each variant with TVM, in microseconds.

        Unless measured or calibrated, that cost is the same in all layouts, so only matches can
        save it.
        """
        matches = self._matches(variants)
        staying = {op: 0.0 if origin in variants.idle else self.lowered.staying[origin]
                   for op, (origin, _) in variants.origins.items()}  # fmt: skip
        costing = costing_of(list(variants.infos), variants.infos, self.backends, self.rules,
                             self.measure, self.model)  # fmt: skip
        if costing is None:
            return tuple(matches), staying
        costed = [m for m in costing(matches) if self.rules.usable(_of_program(m))]
        return tuple(costed), staying | costing.tvm_times

    def _matches(self, variants: Variants) -> list[Match]:
        """All chains, and the maximal coarse regions without a conversion inside."""
        out = chains(list(variants.infos), variants.infos, self.backends)
        for backend in self.backends:
            for coarse in backend.coarse:
                eligible = [
                    op for op in variants.infos if coarse.why_not(op, variants.infos) is None
                ]
                for part in _connected(eligible, variants.given):
                    for dependences in self.flows:
                        for subset in maximal(
                            dependences,
                            dependences.set([op for op in part if op in dependences.places]),
                        ):
                            ops = tuple(part[dependences.ops[k]] for k in bits(subset))
                            out.append(match(backend, coarse.name, ops, variants.infos))
        return [m for m in out if self.rules.usable(_of_program(m))]


def _staying_costs(
    problem: LayoutProblem, variants: Variants, staying: Mapping[Op, float]
) -> dict[int, float]:
    """The microseconds of each alternative with TVM, by its variable.

    An alternative without a variant costs as much as the op's cheapest, and nothing if its result
    is its operand's memory.
    """
    costs = {variants.origins[op]: cost for op, cost in staying.items()}
    least: dict[Op, float] = {}
    for (op, _), cost in costs.items():
        least[op] = min(cost, least.get(op, cost))
    return {y: costs.get((op, choice), least.get(op, 0.0))
            for op, choice, y in problem.alternatives if (op, choice) not in variants.aliases
            }  # fmt: skip


def _conversion_cost(model: CostModel | None, backends: Sequence[Backend]) -> Cost:
    """The cost of a conversion: its bytes, or as many as move in the time that it takes."""
    of_devices = [b.conversion for b in backends if b.conversion is not None]
    if model is None and not of_devices:
        return bytes_moved
    time = of_devices[0] if model is None else model.conversion

    def cost(value: Value, layout: Layout) -> float:
        moved = bytes_moved(value, layout)
        return moved if value.weight else time(moved) * BYTES

    return cost


def _of_program(candidate: Match) -> Match:
    """A match of variants as a match of the program's ops."""
    ops = tuple(op.origin or op for op in candidate.ops)
    return Match(candidate.backend, candidate.pattern, ops, candidate.cost)


def _connected(ops: Sequence[Op], given: Collection[Op]) -> list[dict[Op, Op]]:
    """Connected variants, at most one of each op, by that op; preferably the given ones.

    A value of one layout, such as a scalar, connects variants of all layouts, between which there
    would be conversions inside of a region.
    """
    readers: dict[Op, list[Op]] = {}
    inside = set(ops)
    for op in ops:
        for reader in (u for v in op.outputs for u in v.uses if u in inside):
            readers.setdefault(op, []).append(reader)
            readers.setdefault(reader, []).append(op)
    parts: list[dict[Op, Op]] = []
    seen: set[Op] = set()
    for op in sorted(ops, key=lambda o: o not in given):
        if op in seen:
            continue
        part: dict[Op, Op] = {}
        todo: list[Op] = [op]
        later: list[Op] = []
        while todo or later:
            variant = todo.pop() if todo else later.pop()
            if variant in seen or variant.origin in part:
                continue
            seen.add(variant)
            assert variant.origin is not None
            part[variant.origin] = variant
            for reader in readers.get(variant, ()):
                (todo if reader in given else later).append(reader)
        parts.append(part)
    return parts
