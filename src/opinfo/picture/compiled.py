"""The page of a compiled model: one file that needs no server, no network and no script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ..byoc.compile import CompiledModule
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.measure import Timing
from ..layout.report.plan_report import PlanReport, describe
from ..report.layouts import CONVERSION, conversions
from ..report.regions import FAILED, LEFT, SHARES, failed, left, share, shares
from ..verify.verification import TIMES, Verified

REGION = ("region", "backend", "pattern", "operators", "FLOPs")
VALUE = ("value", "type", "layout", "why")
CANDIDATE = ("candidate", "operators", "shapes", "result", "from")


def compiled_page(title: str, found: CompiledModule, verified: Verified | None) -> str:
    """The page as HTML."""
    done = found.dispatched
    parts = [
        _section("Backends", SHARES, _shares(done)),
        "" if verified is None else _section("Times", TIMES, verified.rows(), _runs(verified)),
        _section("Regions", REGION, _regions(done)),
        _section("What failed", FAILED, failed(done)),
        _section("What stays with TVM", LEFT, left(done)),
        "" if done.report is None else _layouts(done.report),
        _section("Measured candidates", CANDIDATE, list(map(_candidate, done.timings))),
    ]
    text = (files(__package__) / "compiled.html").read_text(encoding="utf-8")
    told = {
        "TITLE": escape(title),
        "SUMMARY": escape(done.summary()),
        "STATUS": escape(f"the choice is {done.status}"),
        "PARTS": "".join(parts),
    }
    return re.sub("@([A-Z]+)@", lambda found: told[found[1]], text)


def _shares(done: Dispatched) -> list[tuple[str, ...]]:
    return [(backend, str(regions) if regions else "", str(ops), f"{part:.1%}")
            for backend, regions, ops, part in shares(done)]  # fmt: skip


def _runs(verified: Verified) -> str:
    return f"Medians of {verified.runs} runs in turns; {verified}."


def _regions(done: Dispatched) -> list[tuple[str, ...]]:
    """The largest first."""
    taken = sorted(done.taken, key=lambda t: -t.flops)
    return [
        (t.symbol, t.backend, t.pattern, _listed(t.ops) + (f" ({t.rounds})" if t.rounds else ""),
         f"{share(done, t.flops):.1%}")
        for t in taken
    ]  # fmt: skip


def _listed(ops: Sequence[str]) -> str:
    return ", ".join(ops)


def _layouts(report: PlanReport) -> str:
    moved = [(v.name, describe(v), v.layout.spell(), v.why) for v in report.moved()]
    return _section("Transforms left", CONVERSION, conversions(report), report.summary()) + (
        _section("Values in another layout", VALUE, moved)
    )


def _candidate(t: Timing) -> tuple[str, ...]:
    return (t.backend, _listed(t.ops), _listed(t.shapes), str(t.result),
            "the database" if t.known else "this run")  # fmt: skip


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """A table under a title; nothing where there are neither rows nor a note."""
    if not rows and not note:
        return ""
    told = f"<p>{escape(note)}</p>" if note else ""
    if not rows:
        return f"<section><h2>{escape(title)}</h2>{told}</section>\n"
    heads = "".join(f"<th>{escape(h)}</th>" for h in head)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    count = f" <small>{len(rows)}</small>"
    return (f"<section><h2>{escape(title)}{count}</h2>{told}<div><table><thead><tr>{heads}</tr>"
            f"</thead>\n<tbody>{lines}</tbody></table></div></section>\n")  # fmt: skip


def _cell(text: str) -> str:
    """A share of something has a bar below it."""
    if text.endswith("%"):
        return f'<td class="bar">{escape(text)}<span style="width: {escape(text)}"></span></td>'
    return f"<td>{escape(text)}</td>"
