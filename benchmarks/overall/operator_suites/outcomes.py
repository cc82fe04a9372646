"""Outcomes of test cases, stored as lines of JSON, and their tables."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common.pages import table

RIGHT, CONSTANT, REFUSED, PARTLY = "right", "right with constants", "refused", "partly refused"
UNCOMPILED, UNCALLED, WRONG = "fails to compile", "refused when called", "wrong"
CRASHED, LATE, OTHER, STARTED = "crashed", "timed out", "not tensors", "started"
#: Verdicts that must not occur.
BAD = (WRONG, CRASHED, LATE, UNCOMPILED)


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    name: str
    verdict: str
    reason: str = ""


def read(path: Path) -> dict[str, Outcome]:
    """Return the last outcome of each case in a file; none if the file does not exist."""
    if not path.exists():
        return {}
    rows = (Outcome(**json.loads(line)) for line in path.read_text().splitlines())
    return {row.name: row for row in rows}


def append(path: Path, outcome: Outcome) -> None:
    """Append an outcome to a file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def tables(outcomes: Iterable[Outcome], meanings: Mapping[str, str]) -> str:
    """Return the counts by verdict, the bad cases, and the refusals by reason."""
    rows = [row for row in outcomes if row.verdict != STARTED]
    counts = Counter(row.verdict for row in rows)
    parts = [table(("outcome", "cases", "meaning"),
                   [*((v, str(counts[v]), text) for v, text in meanings.items()),
                    ("all", str(len(rows)), "")])]  # fmt: skip
    bad = sorted((row for row in rows if row.verdict in BAD), key=lambda row: row.name)
    if bad:
        named = [(row.name, row.verdict, _cell(row.reason)) for row in bad]
        parts.append(table(("case", "outcome", "reason"), named))
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.verdict in (REFUSED, PARTLY, UNCALLED):
            reasons[general(row.reason)].append(row.name)
    if reasons:
        order = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
        cells = [(_cell(text), str(len(names)), min(names)) for text, names in order]
        parts.append(table(("reason of a refusal", "cases", "for example"), cells))
    return "\n\n".join(parts) + "\n"


def general(reason: str) -> str:
    """Return a reason without its file, node and numbers."""
    text = re.sub(r"^.*?\((\w+)\): ", r"\1: ", reason.split("; make ")[0], count=1)
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'…'", text))[:140]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]
