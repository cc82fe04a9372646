"""Rows and tables of layouts and conversions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..layout.report.plan_report import PlanReport, ValueChoice, size

if TYPE_CHECKING:
    from rich.table import Table

CONVERSION = ("conversion of", "from", "to", "bytes", "for", "why")


LAYOUT = ("layout", "values", "for example", "most often because")
#: Number of values named as examples of a layout.
EXAMPLES = 3


def layouts(report: PlanReport) -> list[tuple[str, ...]]:
    """Return a row of `LAYOUT` for each layout that differs from the model's."""
    groups: dict[str, list[ValueChoice]] = {}
    for choice in report.moved():
        groups.setdefault(choice.layout.spell(), []).append(choice)
    rows: list[tuple[str, ...]] = []
    for layout, values in sorted(groups.items(), key=lambda g: -len(g[1])):
        more = ", …" if len(values) > EXAMPLES else ""
        why = Counter(v.why.partition(": ")[2] or v.why for v in values).most_common(1)[0][0]
        names = ", ".join(v.name for v in values[:EXAMPLES])
        rows.append((layout, str(len(values)), names + more, why))
    return rows


def conversions(report: PlanReport) -> list[tuple[str, ...]]:
    """Return a row of `CONVERSION` for each remaining conversion."""
    return [(c.value, c.source.spell(), c.target.spell(), size(c.bytes),
             ", ".join(c.consumers), c.why) for c in report.conversions]  # fmt: skip


def lines_of(lines: Sequence[str]) -> Table:
    """Return lines as a table without a header; long lines wrap."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        out.add_row(Text(line))
    return out


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, header_style="bold", pad_edge=False)
    for k, title in enumerate(head):
        out.add_column(title, no_wrap=k == 0, overflow="fold")
    for row in rows:
        out.add_row(*map(Text, row))
    return out
