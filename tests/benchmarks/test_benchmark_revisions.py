"""Two revisions side by side: pairs and ratios, and a worker that old trees can run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, cast

import pytest
import tvm

from benchmarks.overall.revisions import ROOT, WORKER, Pairs, Process, in_pairs, quartiles, report
from opinfo.analysis.support.files.user_cache import VARIABLE, user_cache

from ..layout import nets


def test_a_ratio_is_of_pairs_not_of_medians() -> None:
    slow_machine_later = [(1.0, 1.1), (2.0, 2.2), (4.0, 4.4)]
    assert quartiles(slow_machine_later) == pytest.approx((1.1, 1.1, 1.1))
    assert quartiles([(1.0, 2.0)]) == (2.0, 2.0, 2.0)
    assert quartiles([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (1.0, 4.0), (1.0, 5.0)]) == (2, 3, 4)
    assert "| plan | 2000 | 2200 | 1.100 | 1.100 to 1.100 | 3 |" in report(
        {"plan": slow_machine_later}, "old", "new"
    )


def test_the_revision_that_goes_first_alternates() -> None:
    asked: list[str] = []

    class Fake:
        def __init__(self, name: str, answer: float) -> None:
            self.name, self.answer = name, answer

        def ask(self, *step: Any) -> list[float]:
            asked.append(self.name)
            return [self.answer]

    pairs: Pairs = {}
    both = cast(list[Process], [Fake("old", 1.0), Fake("new", 2.0)])
    for turn in range(2):
        in_pairs(both, ("plan",), ["plan"], turn, pairs)
    assert asked == ["old", "new", "new", "old"]
    assert pairs == {"plan": [(1.0, 2.0), (1.0, 2.0)]}


def test_the_worker_uses_what_packages_export_only() -> None:
    """It runs on the trees of older revisions."""
    tree = ast.parse(WORKER.read_text())
    modules = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    modules |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    ours = {m for m in modules if m.split(".")[0] in ("opinfo", "benchmarks", "tests")}
    assert ours == {"opinfo", "opinfo.analysis", "opinfo.layout", "opinfo.byoc", "opinfo.jit"}


def test_a_worker_measures_its_own_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(user_cache("")))  # oneDNN's runtime is compiled there
    mod = nets.net(nets.residual, (1, 3, 8, 8), legal=False)
    (tmp_path / "small.json").write_text(tvm.ir.save_json(mod))
    process = Process(ROOT, folder=tmp_path)
    try:
        for step in ("op_info", "plan", "dispatch"):
            first, again = process.ask(step, "small")
            assert first > 0 and again > 0, step
        with pytest.raises(RuntimeError, match=r"the step \['plan', 'none'\] failed"):
            process.ask("plan", "none")
    finally:
        process.close()
