"""The report of `opinfo.inspect` as rows, text, tables and JSON."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ..analysis import LayoutNormalised, OpInfo, Refusal
from ..analysis.results.op_info import Answer, operator
from ..analysis.support.wording import plural
from .printable import printable
from .render import call, explain, html

if TYPE_CHECKING:  # rich is imported on use: it would add a tenth to the import of opinfo
    from rich.table import Table

WIDTH = 120


@dataclass(frozen=True)
class Row:
    """One PrimFunc of a report.

    Attributes:
        func: Its name in the module.
        sites: The number of its calls.
        result: What it computes.
        buffers: Its buffers as text, ``float32[1, 8]``.
    """

    func: str
    sites: int
    result: Answer
    buffers: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The first buffer that is not an operand; the last one if operands are unknown."""
        op = operator(self.result)
        operands = () if op is None else op.operands
        buffers = [(i, text) for i, text in enumerate(self.buffers) if "[" in text]  # not a size
        free = [text for i, text in buffers if i not in operands]
        return next(iter(free if operands else [text for _, text in buffers[-1:]]), "")

    def to_json(self) -> dict[str, Any]:
        """Return JSON values.

        Exactly one of the keys `op`, `layout_normalised` and `refusal` is not null.
        """
        keys = {OpInfo: "op", LayoutNormalised: "layout_normalised"}
        answer = {keys.get(type(self.result), "refusal"): self.result.to_json()}
        return {
            "func": self.func,
            "sites": self.sites,
            "buffers": list(self.buffers),
            **{k: answer.get(k) for k in ("op", "layout_normalised", "refusal")},
        }


def outside(name: str) -> Refusal:
    """Say why a call such as ``relax.call_dps_packed(symbol)`` has no PrimFunc."""
    packed = re.fullmatch(r"relax\.call_\w*packed\((.+)\)", name)
    if packed is not None:
        return Refusal(f"calls the extern function {packed[1]}, which is not TIR", name)
    return Refusal("TVM cannot legalise it to TIR", name)


@dataclass(frozen=True)
class Report:
    """The operators of a module; prints as a table, in a notebook as HTML.

    Attributes:
        rows: One row for each PrimFunc.
        others: The number of calls of anything but a PrimFunc, by name.
    """

    rows: tuple[Row, ...]
    others: tuple[tuple[str, int], ...] = ()

    @property
    def known(self) -> tuple[Row, ...]:
        """The rows with an operator, including those over logical buffers."""
        return tuple(row for row in self.rows if not isinstance(row.result, Refusal))

    @property
    def refused(self) -> tuple[Row, ...]:
        """The rows with a `Refusal`."""
        return tuple(row for row in self.rows if isinstance(row.result, Refusal))

    @property
    def outside(self) -> tuple[Refusal, ...]:
        """Why each of the other calls has no PrimFunc."""
        return tuple(outside(name) for name, _ in self.others)

    def __getitem__(self, func: str) -> Row:
        """Return the row of a PrimFunc; raises ``KeyError`` for an unknown name."""
        rows = {row.func: row for row in self.rows}
        if func not in rows:
            similar = get_close_matches(func, rows, n=3, cutoff=0.3) or list(rows)[:3]
            raise KeyError(f"no PrimFunc is named {func!r}; the report has {len(rows)}, such as "
                           f"{similar}")  # fmt: skip
        return rows[func]

    def sites(self) -> tuple[int, int]:
        """Return the numbers of recovered and of all call sites."""
        return sum(row.sites for row in self.known), sum(row.sites for row in self.rows)

    def summary(self) -> str:
        """Return one line: recovered PrimFuncs, certificates, and calls without a PrimFunc."""
        got, total = self.sites()
        results = (row.result for row in self.rows)
        kinds = Counter(r.certificate.kind for r in results if not isinstance(r, Refusal))
        certificates = (
            ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
        )
        text = (
            f"{len(self.known)} of {plural(len(self.rows), 'PrimFunc')} recovered ({certificates})"
        )
        if total:
            text += f"; {got} of {plural(total, 'call site')} ({got / total:.1%})"
        if self.others:
            text += "; no PrimFunc: " + ", ".join(f"{name} x{n}" for name, n in self.others)
        return text

    def table(self, brief: bool = False) -> Table:
        """Return a rich table, refused PrimFuncs last; ``brief`` omits the pattern kinds."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("PrimFunc", no_wrap=True)
        table.add_column("sites", justify="right")
        table.add_column("output", overflow="fold")
        table.add_column("operator", ratio=1, overflow="fold")
        if not brief:
            table.add_column("kind", no_wrap=True)
        table.add_column("certificate", no_wrap=True)
        for row in (*self.known, *self.refused):
            if not isinstance(row.result, Refusal):
                info = row.result
                cells = [Text(call(info)), Text(info.kind), Text(_certificate(info))]
            else:
                cells = [Text(f"? {row.result.reason}", style="red"), Text(""), Text("")]
            if brief:
                del cells[1]
            table.add_row(Text(row.func), str(row.sites), Text(row.output), *cells)
        return table

    def explain(self) -> str:
        """Return attributes, layouts, certificate and reasons of each row as text."""
        rows = [explain(r.func, r.sites, r.buffers, r.result) for r in self.rows]
        return "\n\n".join(
            [*rows, *(f"{printable(r.where)}\n  {printable(repr(r))}" for r in self.outside)]
        )

    def __repr__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=WIDTH, color_system=None, force_jupyter=False)
        console.print(self.table())
        return f"{out.getvalue()}\n{self.summary()}"

    def _repr_html_(self) -> str:
        rows = [(r.func, r.sites, r.output, r.buffers, r.result) for r in self.rows]
        return html(rows, self.summary())

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        got, total = self.sites()
        return {
            "sites": {"recovered": got, "total": total},
            "rows": [row.to_json() for row in self.rows],
            "others": dict(self.others),
        }


def _certificate(info: OpInfo | LayoutNormalised) -> str:
    return info.certificate.kind + ("" if info.certificate.exact else " ~")
