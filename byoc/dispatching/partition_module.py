"""A module with its chosen regions replaced by calls of their backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend, Code
from ..backend.flops import flops
from ..backend.match import Match
from ..calibration.calibrated_costing import CalibratedCosting
from ..calibration.cost_model import MEASURED, TVM, Estimate
from ..codegen.partition import PartitionedFunction, partitioned
from ..matching.diagnose import diagnose
from ..matching.lowered import Lowered
from .choice.choose import ChosenMatches
from .choice.plan_file import DispatchPlan, PlannedRegion, fingerprint
from .choice.with_layouts import ModuleInLayouts
from .convert_regions import AssignedRegion
from .dispatch_request import DispatchRequest
from .dispatched import Dispatched, OffloadedRegion
from .exclusions import Exclusions

if TYPE_CHECKING:
    from ..measure.costs import Costing


def partition(
    request: DispatchRequest, regions: Sequence[AssignedRegion], codes: Sequence[Code],
    chosen: ChosenMatches, exclusions: Exclusions,
) -> Dispatched:  # fmt: skip
    """The result of a request: the partitioned module, with costs, failures and layouts."""
    costing = request.costing
    reasons = {**({} if costing is None else costing.reasons), **exclusions.reasons}
    result = partition_module(request.lowered, regions, codes, request.backends,
                              chosen.solution.status, reasons)  # fmt: skip
    if costing is not None:
        costs = _region_costs(costing, chosen, [r.match for r in regions])
        offloaded = [_costed(t, c) for t, c in zip(result.taken, costs, strict=True)]
        result = replace(result, taken=tuple(offloaded), timings=tuple(costing.timings))
    result = with_layouts_of(result, request.original, request.layouts)
    return replace(result, failed=exclusions.failures(regions))


def partition_module(
    lowered: Lowered, regions: Sequence[AssignedRegion], codes: Sequence[Code],
    backends: Sequence[Backend], status: str, reasons: Mapping[Op, str] | None = None,
) -> Dispatched:  # fmt: skip
    """The module in which regions are calls of backends.

    Args:
        lowered: The module.
        regions: The regions to replace.
        codes: Their code.
        backends: The backends, for why the remaining operators stay with TVM.
        status: The solver's status.
        reasons: Why operators stay with TVM whose matches were not offered.
    """
    flop = {op: flops(lowered.infos[op], op) for op in lowered.ops}
    rounds = {symbol: how for c in codes for symbol, how in c.rounds}
    offloaded = tuple(_offloaded_region(lowered, r, flop, rounds.get(r.symbol)) for r in regions)
    covered = {op for r in regions for op in r.match.ops}
    remaining = [op for op in lowered.ops if op not in covered]
    module = replaced(lowered, regions, codes)
    options = tuple(dict.fromkeys(o for c in codes for o in c.options))
    diagnoses = tuple(
        replace(diagnosis, why=reasons[op], suggestion="")
        if reasons and op in reasons
        else diagnosis
        for op, diagnosis in zip(
            remaining, diagnose(remaining, lowered.infos, backends), strict=True
        )
    )
    plan = _plan(lowered, [r.match for r in regions], {b.name: b for b in backends}, status)
    return Dispatched(module, offloaded, diagnoses, options, status, plan, sum(flop.values()))


def replaced(lowered: Lowered, regions: Sequence[AssignedRegion], codes: Sequence[Code]) -> Any:
    """The module in which regions are calls of backends, with their code."""
    placed = {r.match.ops[-1]: r.placed for r in regions}
    functions = {
        gvar: PartitionedFunction(
            graph, lowered.flows[gvar], tuple(placed[o] for o in graph.ops if o in placed)
        )
        for gvar, graph in lowered.functions.items()
    }
    return partitioned(lowered.mod, functions, codes)


def with_layouts_of(
    result: Dispatched, original: Lowered, layouts: ModuleInLayouts | None
) -> Dispatched:
    """The result with the layouts that were planned before its regions were chosen."""
    if layouts is None:
        return result
    plan = replace(result.plan, module=fingerprint(original.mod), layouts=layouts.layouts)
    status = result.status if layouts.report.status == "optimal" else layouts.report.status
    return replace(result, plan=plan, report=layouts.report, status=status)


def _region_costs(
    costing: Costing | CalibratedCosting, chosen: ChosenMatches, matches: Sequence[Match]
) -> list[dict[str, Estimate]]:
    """For each chosen match, what its operators cost as one region of each backend, and with TVM.

    The operators that stay with TVM are the sum of theirs if TVM does not fuse them.
    """
    offers: dict[frozenset[Op], list[Match]] = {frozenset(m.ops): [] for m in matches}
    for offer in chosen.offers:
        if (same := offers.get(frozenset(offer.ops))) is not None:
            same.append(offer)
    out = []
    for match in matches:
        best = {TVM: (sum(chosen.staying[op] for op in match.ops), match.ops[:1])}
        for offer in sorted(offers[frozenset(match.ops)], key=lambda m: -m.cost):
            best[offer.backend] = offer.cost, offer.ops
        best[match.backend] = match.cost, match.ops
        out.append({n: Estimate(c, costing.source(n, ops)) for n, (c, ops) in best.items()})
    return out


def _costed(region: OffloadedRegion, costs: Mapping[str, Estimate]) -> OffloadedRegion:
    cost = costs[region.backend]
    return replace(region, microseconds=cost.microseconds if cost.source == MEASURED else None,
                   costs=tuple(sorted(costs.items())))  # fmt: skip


def _offloaded_region(
    lowered: Lowered, region: AssignedRegion, flop: Mapping[Op, int], rounds: str | None
) -> OffloadedRegion:
    ops, merged = region.match.ops, len(region.placed.region.calls) < len(region.placed.ops)
    notes = [
        "several operators are computed as one function" if merged else None,
        rounds,
    ]
    return OffloadedRegion(region.symbol, region.match.backend, region.match.pattern,
                 tuple(lowered.name_of(op) for op in ops), sum(flop[op] for op in ops),
                 "; ".join(filter(None, notes)) or None,
                 tuple(dict.fromkeys(op.node for op in ops if op.node)))  # fmt: skip


def _plan(
    lowered: Lowered, matches: Sequence[Match], backends: Mapping[str, Backend], status: str
) -> DispatchPlan:
    places = {op: (str(g.name_hint), k) for g, x in lowered.functions.items()
              for k, op in enumerate(x.ops)}  # fmt: skip
    regions = tuple(
        PlannedRegion(
            places[match.ops[0]][0],
            match.backend,
            match.pattern,
            tuple(places[op][1] for op in match.ops),
        )
        for match in matches
    )
    versions = {b: backends[b].version() for b in sorted({m.backend for m in matches})}
    return DispatchPlan(fingerprint(lowered.mod), versions, regions, status)
