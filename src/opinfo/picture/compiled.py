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
from ..report.regions import FAILED, LEFT, SHARES, failed, left, share, shares
from ..verify.verification import TIMES, Verified
from .dataflow import INPUT, OUTPUT, GraphBinding, dataflow, main_of
from .template import Card, duration, filled, graph, node, section

REGION = ("region", "model's nodes", "backend", "pattern", "operators", "time", "FLOPs")
VALUE = ("value", "type", "layout", "why")
CANDIDATE = ("candidate", "operators", "shapes", "result", "from")


def compiled_page(title: str, done: Dispatched, verified: Verified | None) -> str:
    """Return the page as HTML."""
    parts = [
        section("Backends", SHARES, _shares(done)),
        "" if verified is None else section("Times", TIMES, verified.rows(), _runs(verified)),
        section("Regions", REGION, _regions(done)),
        section("What failed", FAILED, failed(done)),
        section("What stays with TVM", LEFT, left(done)),
        "" if done.report is None else _layouts(done.report),
        section("Measured candidates", CANDIDATE, list(map(_candidate, done.timings))),
    ]
    return filled(title, "compiled", _cards(done, verified), _graph(done), "".join(parts))


def _cards(done: Dispatched, verified: Verified | None) -> list[Card]:
    ops, regions = sum(len(t.ops) for t in done.taken), len(done.taken)
    out = []
    if verified is not None:
        speed = "good" if verified.compiled < verified.unmodified else "bad"
        times = f"{verified.compiled:.3g} ms, was {verified.unmodified:.3g} ms"
        out.append(Card("Speed", verified.speed(), times, speed))
    part = share(done, sum(t.flops for t in done.taken))
    out.append(Card("On backends", f"{part:.1%} of FLOPs", f"{ops} of {ops + len(done.left)} ops"))
    by = ", ".join(f"{name} {n}" for name, n, _, _ in shares(done) if n)
    out.append(Card("Regions", str(regions), by or "TVM computes everything"))
    known = [t.microseconds for t in done.taken if t.microseconds is not None]
    if known:
        out.append(Card("Time in regions", duration(sum(known)), "each measured alone"))
    if done.report is not None:
        before, after = done.report.before.number, done.report.after.number
        out.append(Card("Layout conversions", f"{before} → {after}", "in the model → compiled"))
    if done.failed:
        out.append(Card("Failed", plural(len(done.failed), "region"), "see below", "bad"))
    if verified is not None:
        mood = "" if verified.same else "bad"
        out.append(Card("Difference", f"{verified.difference:.1e}", "of the largest value", mood))
    return out


# ------------------------------------------------------------------------------- the graph


def _graph(done: Dispatched) -> dict[str, Any]:
    """Return a box for each region and each remaining operator; colours are backends."""
    regions, rest = {t.symbol: t for t in done.taken}, {o.name: o for o in done.left}
    nodes, edges = [], []
    place: dict[str, int] = {}
    for k, binding in enumerate(dataflow(main_of(done.module))):
        taken = regions.get(binding.op)
        nodes.append(
            _end(binding)
            if binding.op in (INPUT, OUTPUT)
            else _own(binding, rest.get(binding.name))
            if taken is None
            else _region(binding, taken, done)
        )
        edges += [(place[value], k) for value in binding.reads]
        place |= dict.fromkeys(binding.gives, k)
    note = plural(len(done.taken), "region")
    return graph(nodes, range(len(nodes)), {"compiled": edges}, {"compiled": ("Compiled:", note)})


def _end(binding: GraphBinding) -> dict[str, Any]:
    return node(
        binding.name,
        sub=binding.type,
        kind="end",
        name=binding.name,
        facts=[("type", binding.type)],
    )


def _region(binding: GraphBinding, t: OffloadedRegion, done: Dispatched) -> dict[str, Any]:
    time = None if t.microseconds is None else duration(t.microseconds)
    flops = f"{share(done, t.flops):.1%} of FLOPs"
    facts = [
        ("region", t.symbol), ("backend", t.backend), ("pattern", t.pattern),
        ("operators", ", ".join(t.ops)), ("model's nodes", ", ".join(t.nodes)),
        ("value", binding.name), ("type", binding.type), ("time", time or ""), ("share", flops),
        ("rounding", t.rounds or ""),
    ]  # fmt: skip
    sub = " · ".join(filter(None, [time, flops, t.nodes[-1] if t.nodes else ""]))
    return node(
        " + ".join(map(_short, t.ops)),
        sub=sub,
        name=binding.name,
        node=binding.node,
        key=t.backend,
        time=t.microseconds,
        facts=facts,
    )


def _own(binding: GraphBinding, o: FallbackOp | None) -> dict[str, Any]:
    label = _short(binding.op if o is None else o.op)
    why = "" if o is None else o.why
    facts = [
        ("computed by", "tvm"),
        ("operator", o.op if o else binding.op),
        ("model's node", binding.node),
        ("value", binding.name),
        ("type", binding.type),
        ("why", why),
        ("what would help", o.suggestion if o else ""),
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


def _shares(done: Dispatched) -> list[tuple[str, ...]]:
    return [(backend, str(regions) if regions else "", str(ops), f"{part:.1%}")
            for backend, regions, ops, part in shares(done)]  # fmt: skip


def _runs(verified: Verified) -> str:
    runs, threads = plural(verified.runs, "alternating run"), plural(verified.threads, "thread")
    return f"Medians of {runs} of each, with {threads}; {verified.outcome()}."


def _regions(done: Dispatched) -> list[tuple[str, ...]]:
    """Return a row for each region, largest first."""
    taken = sorted(done.taken, key=lambda t: -t.flops)
    return [
        (t.symbol, _nodes(t.nodes), t.backend, t.pattern,
         _listed(t.ops) + (f" ({t.rounds})" if t.rounds else ""),
         "" if t.microseconds is None else duration(t.microseconds), f"{share(done, t.flops):.1%}")
        for t in taken
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
