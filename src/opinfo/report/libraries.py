"""Reports of compiled libraries, from the table that they embed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.support.wording import plural
from ..jit.runtime.library_table import LibraryTable
from .layouts import table

if TYPE_CHECKING:
    from rich.table import Table

FUNCTION = ("function", "strategy", "schedule", "why")


def strategies(rows: Iterable[tuple[str, ...]]) -> Table:
    """Return a table of functions, given each `opinfo.jit.SpecializedFunction.row`."""
    return table(FUNCTION, list(rows))


@dataclass(frozen=True)
class LibraryReport:
    """The functions of a library, its call sites, and the ranges of its dimensions."""

    library: LibraryTable

    def summary(self) -> str:
        """Return one line: the numbers of functions and call sites, and the allowed ranges."""
        ranges = "; ".join(f"{name} is {r}" for name, r in self.library.ranges.items())
        functions, sites = len(self.library.function_rows), len(self.library.sites)
        return (
            f"{plural(functions, 'function')}, {plural(sites, 'call site')}, "
            f"{ranges or 'any shape'}"
        )

    def table(self) -> Table:
        """Return a table with a row for each function."""
        return strategies(self.library.function_rows)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        names = ("func", *FUNCTION[1:])
        rows = [dict(zip(names, row, strict=True)) for row in self.library.function_rows]
        return {"target": self.library.target, "rows": rows}
