"""Replay of a saved dispatch: nothing is chosen, everything is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...layout.graph.relax_graph import Op
from ...layout.rewrite.func_proofs import FuncProofs
from ..backend.backend import Backend
from ..backend.catalog import find, resolve_backends, unusable
from ..backend.guarded_calls import guarded
from ..backend.match import Match
from ..codegen.call_converters import code
from ..matching.lowered import Lowered, in_one_era, read
from ..patterns.dependences import Dependences
from ..patterns.failure import Failure, ForeignError
from .choice.plan_file import DispatchPlan, PlannedRegion, PlanRefused
from .choice.with_layouts import in_layouts
from .convert_regions import assign_regions, by_backend
from .dispatched import Dispatched
from .partition_module import partition_module, with_layouts_of


def replay(
    mod: Any, plan: DispatchPlan, backends: Sequence[str | Backend] = (),
    proofs: FuncProofs | None = None,
) -> Dispatched:  # fmt: skip
    """Repeat a saved dispatch; check each choice instead of making it.

    Args:
        mod: The module that was dispatched; its weights may differ.
        plan: The plan of the dispatch.
        backends: `Backend` objects for names in the plan; other names are looked up.
        proofs: What is known of the module already, such as bounds of parameters that are checked.

    Returns:
        The result of the dispatch.

    Raises:
        PlanRefused: The module, a backend or its version differs, a region does not match its
            pattern, or a backend cannot be used.
        TypeError: The plan is not a `DispatchPlan`.
    """
    if not isinstance(plan, DispatchPlan):
        raise TypeError(f"replay: plan: expected a DispatchPlan, got {plan!r:.80}; "
                        "read a file by DispatchPlan.load")  # fmt: skip
    if plan.file:
        raise PlanRefused("the plan is of the file that the module was loaded from; only "
                          "opinfo.compile replays it, on the module as it was loaded")  # fmt: skip
    named = {b.name: b for b in resolve_backends(backends)}
    used = {r.backend for r in plan.regions}
    try:
        by_name = {n: named.get(n) or find(n) for n in sorted({*plan.backends, *used})}
    except ValueError as error:
        raise PlanRefused(f"the plan needs a backend: {error}") from error
    for backend in by_name.values():
        if (reason := unusable(backend)) is not None:
            raise PlanRefused(f"the plan needs {backend.name}, which is not available: {reason}")
    failures: list[Failure] = []
    by_name = {n: guarded(b, failures) for n, b in by_name.items()}
    lowered = read(mod, "replay", proofs)
    plan.check(mod, {b.name: b.version() for b in by_name.values()})
    original, layouts = lowered, None
    try:
        if plan.layouts:
            layouts = in_layouts(original, plan.layouts, plan.status)
            lowered = read(layouts.module, "replay", original.proofs)
    except ValueError as error:
        raise PlanRefused(f"the plan's layouts do not fit: {error}") from error
    matches = _planned(lowered, plan, by_name)
    if (failed := next((f for f in failures if f.stage != "wants"), None)) is not None:
        raise PlanRefused(str(failed))
    regions = assign_regions(lowered, matches, list(by_name.values()))
    codes = []
    for name, assigned in by_backend(regions).items():
        try:
            codes.append(code(by_name[name], assigned))
        except ForeignError as error:
            raise PlanRefused(f"{name}: its converter failed: {error}") from error
    result = partition_module(lowered, regions, codes, list(by_name.values()), plan.status)
    return with_layouts_of(result, original, layouts)


def _planned(lowered: Lowered, plan: DispatchPlan, backends: Mapping[str, Backend]) -> list[Match]:
    """The matches of a plan, checked at the positions that it names."""
    graphs = {str(g.name_hint): x for g, x in lowered.functions.items()}
    flows = {str(g.name_hint): f for g, f in lowered.flows.items()}
    covered: set[Op] = set()
    out = []
    for region in plan.regions:
        place = f"the plan's region {region.ops} of {region.function}"
        all_ops = graphs[region.function].ops if region.function in graphs else ()
        if not region.ops or not all(0 <= k < len(all_ops) for k in region.ops):
            raise PlanRefused(f"{place} is not in the module")
        ops = tuple(all_ops[k] for k in region.ops)
        if not in_one_era(ops) or not _allowed(
            region, ops, backends[region.backend], lowered, flows[region.function]
        ):
            raise PlanRefused(f"{place} does not match {region.backend}, pattern {region.pattern}")
        if covered & set(ops):
            raise PlanRefused(f"{place} overlaps another region")
        covered |= set(ops)
        out.append(Match(region.backend, region.pattern, ops, 0.0))
    if lowered.ring(out) is not None:
        raise PlanRefused("regions of the plan depend on each other cyclically")
    return out


def _allowed(
    region: PlannedRegion,
    ops: tuple[Op, ...],
    backend: Backend,
    lowered: Lowered,
    flows: Sequence[Dependences],
) -> bool:
    chains = [p for p in backend.patterns if p.name == region.pattern]
    if any(ops == m for p in chains for op in ops for m in p.matches(op, lowered.infos)):
        return True
    coarse = [c for c in backend.coarse if c.name == region.pattern]
    return any(c.allows(flows, ops, lowered.infos) for c in coarse)
