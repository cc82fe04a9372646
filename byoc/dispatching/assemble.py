"""Chosen regions put into the module as calls of their backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend, Code
from ..backend.flops import flops
from ..backend.match import Match
from ..backend.region import Placed, Region, region
from ..codegen.partition import PartitionedFunction, partitioned
from ..matching.diagnose import left_behind
from ..matching.lowered import Lowered
from .dispatched import Dispatched, Taken
from .plan_file import DispatchPlan, PlannedRegion, fingerprint
from .with_layouts import ModuleInLayouts


@dataclass(frozen=True)
class Handed:
    """A match, and the region that its backend is handed."""

    match: Match
    placed: Placed

    @property
    def symbol(self) -> str:
        return self.placed.region.symbol


def handed(lowered: Lowered, matches: Sequence[Match], backends: Sequence[Backend]) -> list[Handed]:
    """The regions of matches; their symbols are free in the module."""
    merges = {b.name: b.merges for b in backends}
    out = []
    for k, m in enumerate(matches, _called(lowered.mod)):
        made = region(f"{m.backend}_{k}", m.ops, lowered.infos, merges[m.backend])
        out.append(Handed(m, made))
    return out


def by_backend(regions: Sequence[Handed]) -> dict[str, list[Region]]:
    """In the order of their first regions."""
    out: dict[str, list[Region]] = {}
    for h in regions:
        out.setdefault(h.match.backend, []).append(h.placed.region)
    return out


def assembled(
    lowered: Lowered, regions: Sequence[Handed], codes: Sequence[Code],
    backends: Sequence[Backend], status: str, reasons: Mapping[Op, str] | None = None,
) -> Dispatched:  # fmt: skip
    """The module in which regions are calls of backends.

    ``reasons``: why ops stay behind whose matches were not offered.
    """
    flop = {op: flops(lowered.infos[op], op) for op in lowered.ops}
    placed = {h.match.ops[-1]: h.placed for h in regions}
    taken = [Taken(h.symbol, h.match.backend, h.match.pattern,
                   tuple(name_of(lowered, o) for o in h.match.ops),
                   sum(flop[o] for o in h.match.ops), nodes=_nodes(h.match.ops))
             for h in regions]  # fmt: skip
    rounds = {symbol: how for c in codes for symbol, how in c.rounds}
    merged = {p.region.symbol for p in placed.values() if len(p.region.calls) < len(p.ops)}
    taken = [replace(t, rounds=_rounds(t.symbol in merged, rounds.get(t.symbol))) for t in taken]
    covered = {op for h in regions for op in h.match.ops}
    rest = [op for op in lowered.ops if op not in covered]
    module = partitioned(lowered.mod, {
        g: PartitionedFunction(x, lowered.flows[g], tuple(placed[o] for o in x.ops if o in placed))
        for g, x in lowered.functions.items()
    }, codes)  # fmt: skip
    options = tuple(dict.fromkeys(o for c in codes for o in c.options))
    left = tuple(
        replace(told, why=reasons[op], mend="") if reasons and op in reasons else told
        for op, told in zip(rest, left_behind(rest, lowered.infos, backends), strict=True)
    )
    by_name = {b.name: b for b in backends}
    plan = _plan(lowered, [h.match for h in regions], by_name, status)
    return Dispatched(module, tuple(taken), left, options, status, plan, sum(flop.values()))


def _rounds(merged: bool, how: str | None) -> str | None:
    told = ["several operators are computed as the function that they are"] * merged
    return "; ".join(filter(None, [*told, how])) or None


def _nodes(ops: Sequence[Op]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.node for op in ops if op.node))


def name_of(lowered: Lowered, op: Op) -> str:
    info = lowered.infos[op].info
    assert isinstance(info, OpInfo)
    return info.name


def _called(mod: Any) -> int:
    """A number from which on names of regions are free: the module may have some."""
    names: list[str] = []
    for f in mod.functions.values():
        tvm_ffi.structural_walk(f, (relax.ExternFunc, lambda e: names.append(e.global_symbol)))
    numbers = [n.rpartition("_")[2] for n in names]
    return max((int(n) + 1 for n in numbers if n.isdecimal()), default=0)


def _plan(
    lowered: Lowered, matches: Sequence[Match], backends: Mapping[str, Backend], status: str
) -> DispatchPlan:
    places = {op: (str(g.name_hint), k) for g, x in lowered.functions.items()
              for k, op in enumerate(x.ops)}  # fmt: skip
    regions = tuple(
        PlannedRegion(
            places[m.ops[0]][0], m.backend, m.pattern, tuple(places[op][1] for op in m.ops)
        )
        for m in matches
    )
    versions = {b: backends[b].version() for b in sorted({m.backend for m in matches})}
    return DispatchPlan(fingerprint(lowered.mod), versions, regions, status)


def of_layouts(done: Dispatched, lowered: Lowered, relaid: ModuleInLayouts | None) -> Dispatched:
    """With what was done to the module before its regions were chosen."""
    if relaid is None:
        return done
    plan = replace(done.plan, module=fingerprint(lowered.mod), layouts=relaid.layouts)
    status = done.status if relaid.report.status == "optimal" else relaid.report.status
    return replace(done, plan=plan, report=relaid.report, status=status)
