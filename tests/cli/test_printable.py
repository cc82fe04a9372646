"""Names of a model cannot act on a terminal, nor look like more rows."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from opinfo.analysis import Refusal
from opinfo.cli.run.exit_status import emit
from opinfo.cli.run.printed_tables import show
from opinfo.report.render import explain

NAME = "a\x1b]0;PWNED\x07\x1b[2J\nfake  relax.add  proved"


def test_tables_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "other")
    table.add_row(NAME, Text(NAME))
    show([table], NAME)
    emit(NAME.replace("\n", " "))
    emit(explain(NAME, 1, (NAME,), Refusal(NAME, NAME)))
    out = capsys.readouterr().out
    assert "PWNED" in out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert not any(line.lstrip().startswith("fake") for line in out.splitlines())
