"""`opinfo backends` and `opinfo recognisers`: list plug-ins, their packages and availability."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from ..options.shared_options import Json
from ..run.console_messages import reporting_warnings, working
from ..run.exit_status import emit
from ..run.printed_tables import show

if TYPE_CHECKING:
    from ...analysis import RecogniserInfo
    from ...byoc import BackendInfo


def list_all_backends(as_json: Json = False) -> None:
    """List the backends of opinfo and of installed packages.

    Exit status: 0, even if a backend is not available.
    """
    with working() as console, reporting_warnings(console):
        from ...byoc import list_backends

        infos = list_backends()
    if as_json:
        return emit(json.dumps([asdict(b) for b in infos], indent=1))
    missing = sum(b.unavailable is not None for b in infos)
    tables = [_backends(infos), *_reasons(infos)]
    show(tables, f"{_count(len(infos), 'backend')}, {len(infos) - missing} available")


def list_all_recognisers(as_json: Json = False) -> None:
    """List the recognisers of opinfo and of installed packages, in order of precedence.

    Exit status: 0, even if a package of recognisers could not be loaded.
    """
    with working() as console, reporting_warnings(console):
        from ...analysis import list_recognisers

        infos = list_recognisers()
    if as_json:
        return emit(json.dumps([asdict(r) for r in infos], indent=1))
    missing = sum(r.unavailable is not None for r in infos)
    left_out = f", {_count(missing, 'package')} left out" if missing else ""
    tables = [_recognisers(infos), *_reasons(infos)]
    show(tables, f"{_count(len(infos) - missing, 'recogniser')}{left_out}")


def _backends(infos: Sequence[BackendInfo]) -> Table:
    table = Table("name", "version", "from", "patterns", box=None, pad_edge=False)
    table.add_column("operators", max_width=60)
    table.add_column("available")
    for info in infos:
        origin = _origin(info.distribution, info.distribution_version)
        cells = (info.name, info.version, origin, str(len(info.patterns)), _short(info.operators),
                 "no" if info.unavailable else "yes")  # fmt: skip
        table.add_row(*map(escape, cells))
    return table


def _recognisers(infos: Sequence[RecogniserInfo]) -> Table:
    table = Table("name", "precedence", "from", "operators", box=None, pad_edge=False)
    for info in infos:
        if info.unavailable:
            continue
        origin = _origin(info.distribution, info.distribution_version)
        precedence = "" if info.precedence is None else str(info.precedence)
        table.add_row(*map(escape, (info.name, precedence, origin, _short(info.operators))))
    return table


def _reasons(infos: Sequence[BackendInfo | RecogniserInfo]) -> list[Table]:
    """Return a line for each plug-in that cannot be used, in a table that is not truncated."""
    lines = [f"{p.name}: {p.unavailable}" for p in infos if p.unavailable]
    table = Table(show_header=False, box=None, pad_edge=False)
    for line in lines:
        table.add_row(escape(line))
    return [table] if lines else []


def _origin(distribution: str, version: str) -> str:
    return f"{distribution} {version}" if distribution else "this process"


def _short(operators: Sequence[str], most: int = 4) -> str:
    """Return the first names without ``relax.``, and the number of further ones."""
    names = [name.removeprefix("relax.") for name in operators]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
