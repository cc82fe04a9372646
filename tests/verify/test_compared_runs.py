"""Builds that are called with several sizes: the fastest that is nowhere slower."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import opinfo
from opinfo.front import fastest as module
from opinfo.front.fastest import agreeing, fastest
from opinfo.verify.compared_runs import SLOWER, counted, milliseconds, nowhere_slower, spelled
from opinfo.verify.trial_runs import TrialRun

from ..byoc.calibration.calibrated import BLUE
from ..front.test_front import model

ONES, TWOS = (np.ones((2, 2), "float32"),), (np.full((2, 2), 2, "float32"),)


def run(*times: float | None, outputs: Any = (ONES, ONES)) -> TrialRun:
    """A run of a call for each time; None fails."""
    parts = [TrialRun((), ()) if t is None else TrialRun((t + 1, t), o)
             for t, o in zip(times, outputs, strict=False)]  # fmt: skip
    return TrialRun(parts[0].times, parts[0].outputs, further=tuple(parts[1:]))


def test_the_mean_is_geometric() -> None:
    assert milliseconds(run(2.0, 8.0)) == pytest.approx(4.0)
    assert milliseconds(run(3.0)) == 3.0
    assert milliseconds(run(3.0, None)) == milliseconds(run(None)) == float("inf")
    assert spelled(run(2.0, 8.0)) == "2.00 and 8.00 ms" and spelled(run(None)) == "an error"


def test_a_call_that_no_build_can_make_does_not_count() -> None:
    runs = counted({"a": run(1.0, None), "b": run(2.0, None)})
    assert [milliseconds(r) for r in runs.values()] == [1.0, 2.0]
    runs = counted({"a": run(None, 1.0), "b": run(None, 2.0)})
    assert [milliseconds(r) for r in runs.values()] == [1.0, 2.0]
    runs = counted({"a": run(1.0, None), "b": run(2.0, 2.0)})
    assert not runs["a"].times and milliseconds(runs["b"]) == 2.0


def test_outputs_are_compared_in_each_call() -> None:
    builds: Any = {name: opinfo_stub() for name in "ab"}
    same = {"a": run(1.0, 1.0), "b": run(2.0, 2.0)}
    assert agreeing(same, same, builds) == ["a", "b"]
    other = {"a": run(1.0, 1.0, outputs=(ONES, TWOS)), "b": run(2.0, 2.0)}
    assert agreeing(other, other, builds) == []


class opinfo_stub:
    dispatched = None


@pytest.mark.parametrize(("second", "kept"), [
    ((0.9, 4.0), "second"),
    ((1.04, 2.0), "second"),  # a few per cent slower in one call, faster in the other
    ((1.06, 1.0), "first"),  # more than a few per cent
    ((0.5, 4.3), "first"),
    ((0.99, 4.0), "first"),  # no gain that times can show
    ((None, 1.0), "first"),
])  # fmt: skip
def test_a_build_that_is_slower_in_a_call_is_not_kept(
    second: Any, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod = model(tvm.tirx.Var("n", "int64"))
    builds = {"first": opinfo.compile(mod, []), "second": opinfo.compile(mod, [BLUE])}
    runs = {"first": run(1.0, 4.0), "second": run(*second)}
    monkeypatch.setattr(module, "run_builds", lambda *_: runs)
    monkeypatch.setattr(module, "_different", dict)
    won = fastest(builds, mod, {"of red alone": run(9.0, 9.0)})
    assert won.library == builds[kept].library
    assert " with n=1 and n=64 (n is x:0); " in won.kept


def test_the_fastest_is_compared_with_the_first_one() -> None:
    runs = {"a": run(1.0, 4.0), "b": run(1.04, 2.0), "c": run(1.08, 1.0), "d": run(1.05, 1.9)}
    assert module._best(list(runs), runs) == "d"
    assert nowhere_slower(runs["c"], runs["b"]) and not nowhere_slower(runs["c"], runs["a"])
    assert SLOWER < 1.08
