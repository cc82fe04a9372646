"""The page of a compiled model: backends, times and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analysis.support.wording import plural
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.dispatching.dispatched import OffloadedRegion
from ..byoc.matching.diagnose import FallbackOp
from ..byoc.measure import Timing
from ..layout.report.plan_report import PlanReport, describe
from ..report.layouts import CONVERSION, conversions
from ..report.regions import FAILED, LEFT, SHARES, failed, remaining, share, shares
from ..verify.verification import TIMES, Verified
from .dataflow import INPUT, OUTPUT, GraphBinding, dataflow, main_of
from .template import Card, duration, filled, graph, node, section

REGION = ("region", "model's nodes", "backend", "pattern", "operators", "time", "FLOPs")
VALUE = ("value", "type", "layout", "why")
CANDIDATE = ("candidate", "operators", "shapes", "result", "from")


def compiled_page(title: str, dispatched: Dispatched, verified: Verified | None) -> str:
    """Return the page as HTML."""
    parts = [
        section("Backends", SHARES, _shares(dispatched)),
        "" if verified is None else section("Times", TIMES, verified.rows(), _runs(verified)),
        section("Regions", REGION, _regions(dispatched)),
        section("What failed", FAILED, failed(dispatched)),
        section("What stays with TVM", LEFT, remaining(dispatched)),
        "" if dispatched.report is None else _layouts(dispatched.report),
        section("Measured candidates", CANDIDATE, list(map(_candidate, dispatched.timings))),
    ]
    return filled(
        title, "compiled", _cards(dispatched, verified), _graph(dispatched), "".join(parts)
    )


def _cards(dispatched: Dispatched, verified: Verified | None) -> list[Card]:
    ops, regions = sum(len(t.ops) for t in dispatched.taken), len(dispatched.taken)
    out = []
    if verified is not None:
        speed = "good" if verified.compiled < verified.unmodified else "bad"
        times = f"{verified.compiled:.3g} ms, was {verified.unmodified:.3g} ms"
        out.append(Card("Speed", verified.speed(), times, speed))
    part = share(dispatched, sum(t.flops for t in dispatched.taken))
    out.append(
        Card("On backends", f"{part:.1%} of FLOPs", f"{ops} of {ops + len(dispatched.left)} ops")
    )
    by = ", ".join(f"{name} {n}" for name, n, _, _ in shares(dispatched) if n)
    out.append(Card("Regions", str(regions), by or "TVM computes everything"))
    measured = [t.microseconds for t in dispatched.taken if t.microseconds is not None]
    if measured:
        out.append(Card("Time in regions", duration(sum(measured)), "each measured alone"))
    if dispatched.report is not None:
        before, after = dispatched.report.before.number, dispatched.report.after.number
        out.append(Card("Layout conversions", f"{before} → {after}", "in the model → compiled"))
    if dispatched.failed:
        out.append(Card("Failed", plural(len(dispatched.failed), "region"), "see below", "bad"))
    if verified is not None:
        mood = "" if verified.same else "bad"
        out.append(Card("Difference", f"{verified.difference:.1e}", "of the largest value", mood))
    return out


# ------------------------------------------------------------------------------- the graph


def _graph(dispatched: Dispatched) -> dict[str, Any]:
    """Return a box for each region and each remaining operator; colours are backends."""
    regions, on_tvm = {t.symbol: t for t in dispatched.taken}, {o.name: o for o in dispatched.left}
    nodes, edges = [], []
    place: dict[str, int] = {}
    for k, binding in enumerate(dataflow(main_of(dispatched.module))):
        region = regions.get(binding.op)
        nodes.append(
            _end(binding)
            if binding.op in (INPUT, OUTPUT)
            else _tvm_op(binding, on_tvm.get(binding.name))
            if region is None
            else _region(binding, region, dispatched)
        )
        edges += [(place[value], k) for value in binding.reads]
        place |= dict.fromkeys(binding.gives, k)
    note = plural(len(dispatched.taken), "region")
    return graph(nodes, range(len(nodes)), {"compiled": edges}, {"compiled": ("Compiled:", note)})


def _end(binding: GraphBinding) -> dict[str, Any]:
    return node(
        binding.name,
        sub=binding.type,
        kind="end",
        name=binding.name,
        facts=[("type", binding.type)],
    )


def _region(
    binding: GraphBinding, region: OffloadedRegion, dispatched: Dispatched
) -> dict[str, Any]:
    time = None if region.microseconds is None else duration(region.microseconds)
    flops = f"{share(dispatched, region.flops):.1%} of FLOPs"
    facts = [
        ("region", region.symbol), ("backend", region.backend), ("pattern", region.pattern),
        ("operators", ", ".join(region.ops)), ("model's nodes", ", ".join(region.nodes)),
        ("value", binding.name), ("type", binding.type), ("time", time or ""), ("share", flops),
        ("rounding", region.rounds or ""),
    ]  # fmt: skip
    sub = " · ".join(filter(None, [time, flops, region.nodes[-1] if region.nodes else ""]))
    return node(
        " + ".join(map(_short, region.ops)),
        sub=sub,
        name=binding.name,
        node=binding.node,
        key=region.backend,
        time=region.microseconds,
        facts=facts,
    )


def _tvm_op(binding: GraphBinding, operator: FallbackOp | None) -> dict[str, Any]:
    label = _short(binding.op if operator is None else operator.op)
    why = "" if operator is None else operator.why
    facts = [
        ("computed by", "tvm"),
        ("operator", operator.op if operator else binding.op),
        ("model's node", binding.node),
        ("value", binding.name),
        ("type", binding.type),
        ("why", why),
        ("what would help", operator.suggestion if operator else ""),
    ]
    return node(
        label,
        sub=binding.node or binding.type,
        name=binding.name,
        node=binding.node,
        key="tvm",
        facts=facts,
    )


def _short(op: str) -> str:
    return op.removeprefix("relax.").removeprefix("nn.").removeprefix("image.")


# ------------------------------------------------------------------------------ the tables


def _shares(dispatched: Dispatched) -> list[tuple[str, ...]]:
    return [(backend, str(regions) if regions else "", str(ops), f"{part:.1%}")
            for backend, regions, ops, part in shares(dispatched)]  # fmt: skip


def _runs(verified: Verified) -> str:
    runs, threads = plural(verified.runs, "alternating run"), plural(verified.threads, "thread")
    return f"Medians of {runs} of each, with {threads}; {verified.outcome()}."


def _regions(dispatched: Dispatched) -> list[tuple[str, ...]]:
    """Return a row for each region, largest first."""
    regions = sorted(dispatched.taken, key=lambda t: -t.flops)
    return [
        (region.symbol, _nodes(region.nodes), region.backend, region.pattern,
         _listed(region.ops) + (f" ({region.rounds})" if region.rounds else ""),
         "" if region.microseconds is None else duration(region.microseconds),
         f"{share(dispatched, region.flops):.1%}")
        for region in regions
    ]  # fmt: skip


def _nodes(names: Sequence[str]) -> str:
    """Return the first and the last name."""
    return " … ".join(dict.fromkeys([*names[:1], *names[-1:]]))


def _listed(ops: Sequence[str]) -> str:
    return ", ".join(ops)


def _layouts(report: PlanReport) -> str:
    moved = [(v.name, describe(v), v.layout.spell(), v.why) for v in report.moved()]
    return section("Conversions left", CONVERSION, conversions(report), report.summary()) + (
        section("Values in another layout", VALUE, moved)
    )


def _candidate(timing: Timing) -> tuple[str, ...]:
    return (timing.backend, _listed(timing.ops), _listed(timing.shapes), str(timing.result),
            "the database" if timing.known else "this run")  # fmt: skip
