"""`opinfo cache`: manage the kernel store."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...analysis.support.wording import plural
from ..run.command_group import Command
from ..run.console_messages import working
from ..run.exit_status import UserError, emit
from ..run.printed_tables import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ...jit.store.store import KernelStore, StoreEntry

cache = typer.Typer(help="List or clear the compiled kernels on disk.")

Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="The folder; default: $OPINFO_CACHE, or the platform's cache.",
    ),
]
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@cache.command("path", cls=Command)
def cache_path(folder: Folder = None) -> None:
    """Print the folder of the kernel store."""
    with working():
        path = str(_store(folder).folder)
    emit(path)


@cache.command("ls", cls=Command)
def cache_ls(folder: Folder = None) -> None:
    """List the kernels, most recently used first.

    Exit status: 0, or 2 with a one-line error if the folder cannot be used.
    """
    with working():
        store = _checked(folder)
        try:
            rows = store.ls()
        except OSError as error:
            raise UserError(f"{store.folder}: {error.strerror}") from error
    show([_table(rows)] if rows else [], f"{_total(rows)} in {store.folder}")


@cache.command("clear", cls=Command)
def cache_clear(
    folder: Folder = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only kernels unused for this long: 30m, 12h, 7d."),
    ] = None,
) -> None:
    """Remove kernels; processes that have loaded them keep working.

    Exit status: 0, or 2 with a one-line error if the folder cannot be used.
    """
    with working():
        store = _checked(folder)
        seconds = 0.0 if older_than is None else parse_age(older_than)
        try:
            removed = store.clear(seconds)
        except OSError as error:
            raise UserError(f"{store.folder}: {error.strerror}") from error
    emit(f"{plural(len(removed), 'kernel')} removed from {store.folder}")


def parse_age(text: str) -> float:
    """Parse ``90s``, ``30m``, ``12h``, ``7d`` or ``2w`` to seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is None:
        raise UserError(f"--older-than {text}: expected a number and s, m, h, d or w, such as 7d")
    return float(match[1]) * SECONDS[match[2]]


def age(seconds: float) -> str:
    """Format an age in its largest unit: ``just now``, ``5 m ago``, ``3 d ago``."""
    units = [(u, n) for u, n in SECONDS.items() if seconds >= n]
    if not units:
        return "just now"
    unit, number = units[-1]
    return f"{int(seconds // number)} {unit} ago"


def _store(folder: Path | None) -> KernelStore:
    from ...jit.store.store import KernelStore

    try:
        return KernelStore(folder)
    except RuntimeError as error:
        raise UserError(str(error)) from error


def _checked(folder: Path | None) -> KernelStore:
    store = _store(folder)
    why = store.refusal()
    if why is not None:
        raise UserError(why)
    return store


def _table(rows: Sequence[StoreEntry]) -> Table:
    from rich.table import Table

    table = Table("key", "function", "shape", "schedule", "target", box=None, pad_edge=False)
    table.add_column("bytes", justify="right")
    table.add_column("last used", justify="right")
    now = time.time()
    for entry in rows:
        names = ("function", "shape", "schedule", "target")
        cells = [entry.about.get(name, "") for name in names]
        if "damaged" in entry.about:
            cells[0] = f"damaged: {entry.about['damaged']}"
        table.add_row(
            entry.key[:12], *map(_escaped, cells), f"{entry.size:,}", age(now - entry.used)
        )
    return table


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _total(rows: Sequence[StoreEntry]) -> str:
    return f"{plural(len(rows), 'kernel')}, {plural(sum(r.size for r in rows), 'byte')}"
