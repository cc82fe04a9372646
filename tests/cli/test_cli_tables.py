"""Tables on a terminal: a row is a line, and reasons are not cut off in a pipe."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from opinfo.cli.run import printed_tables
from opinfo.report.layouts import lines_of, table

LONG = "a reason of many words " * 10


def _shown(monkeypatch: pytest.MonkeyPatch, tables: list[Any], terminal: bool) -> list[str]:
    written: list[str] = []
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(printed_tables, "write", written.append)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    printed_tables.show(tables, "summary")
    return "".join(written).splitlines()


def test_a_row_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"lv{k}", LONG, "onednn") for k in range(3)]
    lines = _shown(monkeypatch, [table(("value", "why", "backend"), rows)], True)
    body = [line for line in lines if "lv" in line]
    assert len(body) == 3 and len([line for line in lines if line.strip()]) == 5
    assert all("…" in line and line.rstrip().endswith("onednn") for line in body)


def test_nothing_is_left_out_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _shown(monkeypatch, [table(("value", "why"), [("lv", LONG)])], False)
    assert "…" not in "".join(lines)
    assert " ".join(" ".join(lines).split()).count("a reason of many words") == 10


def test_prose_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _shown(monkeypatch, [lines_of([LONG])], True)
    assert " ".join(" ".join(lines).split()).count("a reason of many words") == 10
