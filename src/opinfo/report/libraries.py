"""How the functions of a library are compiled, as it says itself."""

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
    """How functions are compiled, by what `opinfo.jit.SpecializedFunction` calls its row."""
    return table(FUNCTION, list(rows))


@dataclass(frozen=True)
class LibraryReport:
    """What a library says of its functions, their call sites, and the ranges of dimensions."""

    library: LibraryTable

    def summary(self) -> str:
        """One line: how many functions and call sites, and the shapes that are allowed."""
        ranges = "; ".join(f"{name} is {r}" for name, r in self.library.ranges.items())
        functions, sites = len(self.library.told), len(self.library.sites)
        return (
            f"{plural(functions, 'function')}, {plural(sites, 'call site')}, "
            f"{ranges or 'any shape'}"
        )

    def table(self) -> Table:
        """A row for each function."""
        return strategies(self.library.told)

    def to_json(self) -> dict[str, Any]:
        """A value that `json.dumps` takes."""
        names = ("func", *FUNCTION[1:])
        rows = [dict(zip(names, row, strict=True)) for row in self.library.told]
        return {"target": self.library.target, "rows": rows}
