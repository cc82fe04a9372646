"""`opinfo inspect MODEL --fused`: the chain of operators of every PrimFunc after fusion."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..analysis import Chain, PartlyRead, Refusal, Step
from ..analysis.support.wording import plural
from .operators import WIDTH
from .printable import printable
from .render import step

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class ChainRow:
    """One PrimFunc: its name, its number of calls, its operators.

    ``strategy`` is the default strategy of `opinfo compile --shapes`, if it has symbolic shapes.
    """

    func: str
    sites: int
    result: Chain | Refusal
    strategy: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The operators as text, followed by the refusal if there is one."""
        if isinstance(self.result, PartlyRead):
            parts = self.result.parts
        else:
            parts = self.result.steps if isinstance(self.result, Chain) else ()
        lines = [
            f"${k} = {step(s) if isinstance(s, Step) else repr(s)}" for k, s in enumerate(parts)
        ]
        if isinstance(self.result, Refusal):
            lines.append(f"? {self.result.reason} ({self.result.where})")
        return tuple(lines)


@dataclass(frozen=True)
class ChainReport:
    """The chains of a module. `%0` is a parameter of the PrimFunc, `$0` the result of a step."""

    rows: tuple[ChainRow, ...]

    def summary(self) -> str:
        """Return one line: the numbers of recovered functions and operators."""
        chains = [r.result for r in self.rows if isinstance(r.result, Chain)]
        total = sum(map(len, chains))
        return (f"{len(chains)} of {plural(len(self.rows), 'PrimFunc')} read as chains of "
                f"{plural(total, 'operator')}")  # fmt: skip

    def table(self, brief: bool = False) -> Table:
        """Return a rich table with a line for each operator; ``brief`` changes nothing."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("PrimFunc", overflow="fold")
        table.add_column("sites", justify="right")
        symbolic = any(row.strategy for row in self.rows)
        if symbolic:
            table.add_column("strategy", overflow="fold")
        table.add_column("operators", ratio=1, overflow="fold")
        for row in self.rows:
            style = "red" if isinstance(row.result, Refusal) else ""
            cells = (Text(row.func), str(row.sites), *([Text(row.strategy)] if symbolic else ()))
            for k, line in enumerate(row.lines or ("",)):
                first = cells if k == 0 else ("",) * len(cells)
                table.add_row(*first, Text(line, style=style if line.startswith("?") else ""))
        return table

    def explain(self) -> str:
        """Return every chain with its certificates as text."""
        return "\n\n".join(
            f"{printable(row.func)} ({plural(row.sites, 'call site')})\n{row.result!r}"
            for row in self.rows
        )

    def __repr__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=WIDTH, color_system=None, force_jupyter=False).print(self.table())
        return f"{out.getvalue()}\n{self.summary()}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "rows": [
                {"func": row.func, "sites": row.sites, "strategy": row.strategy or None,
                 "chain": row.result.to_json()}
                for row in self.rows
            ]
        }  # fmt: skip
