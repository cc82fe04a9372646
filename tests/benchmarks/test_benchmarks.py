"""What benchmarks keep and write; a small net through `opinfo compile` into a fresh process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from benchmarks.backends import end_to_end
from benchmarks.backends.byoc import byoc_page
from benchmarks.common.rows import store_row, stored_rows

from ..layout import nets


def _row(
    model: str, threads: int, onednn: float = 1.0, others: float | None = 2.0
) -> byoc_page.Row:
    summary = "offloaded 3 of 4 ops, 99.0% of FLOPs, onednn 3, tvm 1"
    return byoc_page.Row(model, threads, summary, onednn, 3.0, 2.0, others, others, 1e-7, 5.0)


def test_a_row_takes_the_place_of_the_one_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for row in (_row("a", 1), _row("a", 2), _row("b", 1), _row("a", 1, 9.0)):
        store_row(path, row, "model", "threads")
    found = {(r["model"], r["threads"]): r["onednn"] for r in stored_rows(path)}
    assert found == {("a", 1): 9.0, ("a", 2): 1.0, ("b", 1): 1.0}
    assert len(json.loads(path.read_text())) == 3 and stored_rows(tmp_path / "none.json") == []


def test_the_page_of_speed_has_a_table_for_each_number_of_threads() -> None:
    rows = [_row("b", 1, 5.0, None), _row("a", 1), _row("a", 2)]
    one, two = byoc_page.page(rows, ["a", "b"]).split("## ")[1:]
    lines = [line for line in one.splitlines() if line.startswith("|")]
    assert lines[2:] == [
        "| a | 1.00 | 0.5 | 0.5 | 0.5 | 0.333 | 1e-07 | 3 of 4 | 99.0% | 5 |",
        "| b | 5.00 | 2.5 |  |  | 1.67 | 1e-07 | 3 of 4 | 99.0% | 5 |",
    ]
    assert "time on 1 of 2 models; at worst 2.50 × it" in one
    assert two.startswith("2 threads") and "on 1 of 1 models" in two


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A small model and its input."""
    mod = nets.net(nets.residual, (1, 3, 8, 8), legal=False)
    x = {"x0": np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype("float32")}

    def save(name: str, folder: Path) -> tuple[Path, dict[str, tuple[int, ...]]]:
        path = folder / "model.json"
        path.write_text(tvm.ir.save_json(mod))
        return path, {}

    monkeypatch.setattr(end_to_end, "save", save)
    monkeypatch.setattr(end_to_end, "inputs", lambda name: x)
    return x


def test_a_library_is_compared_in_a_fresh_process(small: dict[str, Any]) -> None:
    row = end_to_end.measure("small")
    assert row.good, row
    assert row.summary.startswith("offloaded ") and row.compiled > 0 < row.unmodified
    assert 0 < row.fresh < 1e-5
    assert "1 of 1 agree" in end_to_end.page([row])


def test_a_failed_run_is_reported(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_to_end, "compiled", lambda *_: {})
    monkeypatch.setattr(end_to_end, "FRESH", "raise RuntimeError('no such library')")
    row = end_to_end.measure("small")
    assert not row.good and row.failed == "RuntimeError: no such library"
    assert "0 of 1 agree" in end_to_end.page([row])
    assert not end_to_end.Row("m", "", verified=1e-6, fresh=float("nan")).good
