"""Count what TVM's own pattern tables match: before lowering, after it, raised, and planned.

    python -m benchmarks.tables [--page [FILE]] [--json FILE] [MODEL ...]

For each model and table, counts the composites that TVM's `partition_for_<table>` creates in: the
module as imported; the module after `LegalizeOps`, with all names, attributes and annotations
removed from its PrimFuncs; that module raised by `RaiseOps`; and that module planned in graph mode
for the layouts that the table takes, then raised. `ConvertLayout` is TVM's pass on the module as
imported.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm import relax

from benchmarks.common import nets
from benchmarks.common.pages import add_page_option, write_below
from opinfo.byoc.dispatching.choice.objective import keeping_chains
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.layout.plan import plan_layout
from opinfo.testing.strip import strip_module
from tests import models

from .partitions import TABLES, WANTS, composites
from .zoo import ZOO, module

MODELS = (*ZOO, "resnet18", "mobilenet_v2", "unet", "vit", "bert", "squeezenet", "resnet50",
          "inception_v1", "densenet121")  # fmt: skip
MARK = "<!-- written by `python -m benchmarks.tables --page` -->"


@dataclass(frozen=True)
class Row:
    """Composites of one table in one model; None if the table requires no layout."""

    model: str
    table: str
    original: int
    legalised: int
    raised: int
    planned: int | None
    converted: int | None
    lost: dict[str, int]
    won: dict[str, int]


def load(name: str) -> Any:
    """The module of a model before `LegalizeOps`. Raises ``KeyError``."""
    if name in ZOO:
        return module(ZOO[name]())
    if name in nets.INPUTS and name not in models.NAMES:
        return nets.module(name)
    return models.module(name)


def measure(name: str, tables: Sequence[str] = tuple(TABLES)) -> list[Row]:
    """Return a row for each table."""
    original = load(name)
    legalised = strip_module(relax.transform.LegalizeOps()(original))
    raised = raise_ops(legalised).module
    laid: dict[str, tuple[Any, Any]] = {}
    rows = []
    for table in tables:
        before, after = composites(original, table), composites(raised, table)
        layouts = WANTS.get(table)
        if layouts is not None and str(layouts) not in laid:
            planned = raise_ops(plan(legalised, layouts)).module
            laid[str(layouts)] = planned, _converted(original, layouts)
        planned, converted = laid[str(layouts)] if layouts else (None, None)
        rows.append(Row(
            name, table, before.total(), composites(legalised, table).total(), after.total(),
            _total(planned, table), _total(converted, table),
            dict(before - after), dict(after - before)))  # fmt: skip
    return rows


def plan(mod: Any, layouts: Any) -> Any:
    """Plan the layouts that a table takes, without splitting chains."""
    return plan_layout(mod, layouts, mode="graph", objective=keeping_chains()).module


def _total(mod: Any, table: str) -> int | None:
    return None if mod is None else composites(mod, table).total()


def _converted(mod: Any, layouts: Any) -> Any:
    """Convert with TVM's own pass; None if it rejects the module."""
    try:
        return relax.transform.ConvertLayout({k: list(v) for k, v in layouts.items()})(mod)
    except Exception:  # it may raise anything
        return None


def page(rows: Sequence[Row]) -> str:
    """Return the tables of the page."""
    head = ["| model | table | original | legalised | raised | planned | `ConvertLayout` |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    lines = [f"| {r.model} | {r.table} | {r.original} | {r.legalised} | {r.raised} | "
             f"{_cell(r.planned)} | {_cell(r.converted)} |"
             for r in rows if r.original or r.raised or r.planned]  # fmt: skip
    lost: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row.lost or row.won:
            lost[", ".join(sorted(row.lost)) or "–", ", ".join(sorted(row.won)) or "–"] += 1
    differences = [f"| {a} | {b} | {n} |" for (a, b), n in sorted(lost.items())]
    same = sum(r.original == r.raised and not r.lost for r in rows)
    return "\n".join([
        *head, *lines, "",
        f"{same} of {len(rows)} rows match the same patterns as often as before lowering. "
        "In the others:", "",
        "| matched before | matched after | rows |", "|---|---|---|", *differences, "",
    ])  # fmt: skip


def _cell(n: int | None) -> str:
    return "" if n is None else str(n)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("model", nargs="*", default=MODELS, help=", ".join(MODELS))
    add_page_option(parser, "pattern-tables.md")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for name in options.model:
        start = time.process_time()
        for row in measure(name):
            rows.append(row)
            counts = (row.original, row.legalised, row.raised, row.planned, row.converted)
            cells = " / ".join(map(_cell, counts))
            print(f"{row.model}, {row.table}: {cells}", row.lost or "", row.won or "")
        print(f"  {time.process_time() - start:.1f} s", flush=True)
    if options.page:
        write_below(options.page, MARK, page(rows))
    if options.json:
        from benchmarks.common.rows import write

        write(options.json, [asdict(r) for r in rows])


if __name__ == "__main__":
    main()
