"""Conversions of layouts as rows and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..layout.report.plan_report import PlanReport, size

if TYPE_CHECKING:
    from rich.table import Table

CONVERSION = ("conversion of", "from", "to", "bytes", "for", "why")


def conversions(report: PlanReport) -> list[tuple[str, ...]]:
    """A row of `CONVERSION` for each conversion that stays."""
    return [(c.value, c.source.spell(), c.target.spell(), size(c.bytes),
             ", ".join(c.consumers), c.why) for c in report.conversions]  # fmt: skip


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal."""
    from rich.table import Table
    from rich.text import Text

    out = Table(box=None, header_style="bold", pad_edge=False)
    for k, title in enumerate(head):
        out.add_column(title, no_wrap=k == 0, overflow="fold")
    for row in rows:
        out.add_row(*map(Text, row))
    return out
