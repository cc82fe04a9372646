"""A fixed sample of the coverage sweep, and that its page is about the operators that TVM has."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.analysis import coverage

from ..common.registry import lowered
from ..variants import Variant, thin, variants
from ..variants.judge import Verdict, judge

SAMPLE = 1  # calls of an operator


def _sample() -> list[Variant]:
    return [v for vs in variants().values() for v in thin(vs, SAMPLE)]


@pytest.mark.parametrize("call", _sample(), ids=str)
def test_sampled_calls_are_not_wrong(call: Variant) -> None:
    verdict = judge(call)
    assert verdict.grade != "wrong", verdict.note


def test_the_page_is_about_the_operators_of_the_registry() -> None:
    assert set(re.findall(r"`(relax\.[\w.]+)`", coverage.PAGE.read_text())) >= lowered()


def test_variants_are_of_operators_of_the_registry() -> None:
    assert set(variants()) <= lowered()


def test_a_run_in_pieces_keeps_the_last_verdict(tmp_path: Path) -> None:
    log = tmp_path / "log"
    calls = [Variant("relax.exp", ("float32[3]",)), Variant("relax.sin", ("float32[3]",))]
    old = Verdict(str(calls[0]), "wrong", "of an earlier run")
    log.write_text(json.dumps(asdict(old)) + "\n")
    assert coverage.judged(calls[:1], 1, coverage.stored(log), log) == {str(calls[0]): old}
    coverage.judged(calls, 1, coverage.stored(log, ["wrong"]), log)
    assert [v.grade for v in coverage.stored(log).values()] == ["exact", "exact"]


def test_a_reason_is_the_same_in_every_run() -> None:
    assert coverage.tidy("v42 and q17 of v42") == "v0 and q1 of v0"
    assert "0x" not in " ".join(map(str, (v for vs in variants().values() for v in vs)))


def test_a_part_of_no_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["coverage", "--ops", "nope"])
    with pytest.raises(SystemExit) as exited:
        coverage.main()
    assert exited.value.code == "--ops nope: no operator has one of these in its name"
