"""Self-contained HTML pages: summary, graph, foldable tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from ..analysis.support.wording import plural
from .groups import blocks

#: A table with more rows than this is folded initially.
FOLDED = 30


@dataclass(frozen=True)
class Card:
    """A figure of the summary; ``mood`` is "good", "bad" or nothing."""

    title: str
    value: str
    note: str = ""
    mood: str = ""


def filled(title: str, what: str, cards: Sequence[Card], graph: dict[str, Any], parts: str) -> str:
    """Return the page as HTML that needs no server and no network."""
    values = {
        "TITLE": escape(title),
        "WHAT": escape(what),
        "STYLE": _file("style.css"),
        "CARDS": "".join(map(_card, cards)),
        "PARTS": parts,
        "DATA": json.dumps(graph, separators=(",", ":")).replace("</", "<\\/"),
        "LAYERED": _file("layered.js"),
        "SCRIPT": _file("graph.js"),
    }
    return re.sub("@([A-Z]+)@", lambda name: values[name[1]], _file("page.html"))


def graph(
    nodes: Sequence[dict[str, Any]], starts: Sequence[int], edges: dict[str, list[tuple[int, int]]],
    titles: dict[str, tuple[str, str]],
) -> dict[str, Any]:  # fmt: skip
    """Return the data of the graph.

    Args:
        nodes: Boxes in program order; an inserted conversion follows the value that it converts.
        starts: Indices of the program's own nodes in ``nodes``.
        edges: The edges of each side, from earlier to later nodes.
        titles: The name and the note of each side.
    """
    program_nodes = [nodes[k] for k in starts]
    spans = blocks([n["label"] for n in program_nodes], [n["node"] for n in program_nodes])
    ends: list[int] = [*starts[1:], len(nodes)]
    groups = []
    for block in spans:
        start, stop = starts[block.start], ends[block.stop - 1]
        time = _time(nodes[start:stop])
        groups.append({"label": block.label, "start": start, "stop": stop, "time": time})
    keys = Counter(n["key"] for n in nodes if n["key"])
    return {"nodes": nodes, "sides": list(edges), "edges": edges, "titles": titles,
            "groups": groups, "legend": keys.most_common()}  # fmt: skip


def _time(nodes: Sequence[dict[str, Any]]) -> str:
    """Return the total time of the measured regions among nodes."""
    times = [n["time"] for n in nodes if n.get("time") is not None]
    return f"{duration(sum(times))} in {plural(len(times), 'region')}" if times else ""


def node(label: str, **parts: Any) -> dict[str, Any]:
    """Return a box: two lines, the ``key`` of its colour, bytes that it moves, and facts."""
    empty = {"sub": "", "kind": "op", "name": "", "node": "", "key": "", "before": 0, "after": 0}
    facts = [[key, value] for key, value in parts.pop("facts", ()) if value]
    return {"label": label, **empty, **parts, "facts": facts}


def duration(microseconds: float) -> str:
    """Format a time: ``12.5 us``, ``3.4 ms``."""
    if microseconds < 1000:
        return f"{microseconds:.1f} us"
    return f"{microseconds / 1000:.1f} ms"


def section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Return a titled table, or nothing without rows and note."""
    if not rows and not note:
        return ""
    count = f" <small>{len(rows)}</small>" if rows else ""
    state = "" if len(rows) > FOLDED else " open"
    text = f"<p>{escape(note)}</p>" if note else ""
    return (f"<details{state}><summary>{escape(title)}{count}</summary>{text}"
            f"{_table(head, rows) if rows else ''}</details>\n")  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numbers = [all(re.fullmatch(r"|[\d.,]+( \w+)?", row[k]) for row in rows)
               and any(row[k] for row in rows) for k in range(len(head))]  # fmt: skip
    kinds = [' class="number"' if n else "" for n in numbers]
    heads = "".join(f"<th{c}>{escape(h)}</th>" for h, c in zip(head, kinds, strict=True))
    lines = "".join(
        f"<tr>{''.join(_cell(t, c) for t, c in zip(row, kinds, strict=True))}</tr>\n"
        for row in rows
    )
    return (f"<div><table><thead><tr>{heads}</tr></thead>\n"
            f"<tbody>{lines}</tbody></table></div>")  # fmt: skip


def _cell(text: str, kind: str) -> str:
    """Return a cell: percentages get a bar, and paths may break after separators."""
    if re.fullmatch(r"[\d.]+%", text):
        return f'<td class="bar">{text}<span style="width: {text}"></span></td>'
    return f"<td{kind}>{_breakable(text)}</td>"


def _breakable(text: str) -> str:
    return "<wbr>".join(map(escape, re.split(r"(?<=[/._,:])(?=\S)", text)))


def _card(card: Card) -> str:
    note = f"<dd>{escape(card.note)}</dd>" if card.note else ""
    return (f'<div class="{card.mood}"><dt>{escape(card.title)}</dt>'
            f"<dd>{escape(card.value)}</dd>{note}</div>")  # fmt: skip


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
