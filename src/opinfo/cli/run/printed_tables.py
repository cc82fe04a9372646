"""Print tables: complete in files and pipes, one line a row on a terminal."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...report.printable import printable
from .exit_status import single_line, write

if TYPE_CHECKING:
    from rich.table import Table

#: Width of tables if standard output is not a terminal.
WIDE = 160
#: Terminals narrower than this show only the most important columns of a table.
NARROW = 120


def show(tables: Sequence[Table], summary: str) -> None:
    """Print tables separated by empty lines, then the summary."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    text = io.StringIO()
    out = Console(file=text, force_terminal=terminal, width=None if terminal else WIDE)
    for table in tables:
        out.print(_fitted(_printable(table), terminal), "")
    out.print(single_line(summary), markup=False, highlight=False, soft_wrap=True, end="")
    write(text.getvalue())


def narrow() -> bool:
    """Return whether standard output is a terminal too narrow for wide tables."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and shutil.get_terminal_size().columns < NARROW


def _fitted(table: Table, terminal: bool) -> Table:
    """Fit rows to one line of a terminal by truncating the widest column.

    Files and pipes get complete rows. A table without a header is prose and is not truncated.
    """
    if terminal and table.show_header and table.row_count:
        table.expand = True
        for column in table.columns:
            column.no_wrap, column.overflow = True, "ellipsis"
        max(
            table.columns, key=lambda column: max(len(str(cell)) for cell in column._cells)
        ).ratio = 1
    return table


def _printable(table: Table) -> Table:
    """Escape control characters in cells, which may contain names from a model."""
    from rich.text import Text

    for column in table.columns:
        for k, cell in enumerate(column._cells):
            if isinstance(cell, Text):
                cell.plain = printable(cell.plain)
            else:
                column._cells[k] = printable(cell) if isinstance(cell, str) else cell
    return table
