"""Of several builds the fastest is kept whose outputs another one has."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

import opinfo
from opinfo.front.fastest import fastest
from opinfo.verify.trial_runs import TrialRun

from ...layout import nets
from ..calibration.calibrated import BLUE, two


def _crashing(*_: Any) -> None:
    raise RuntimeError("it crashes")


ONES, TWOS = (np.ones((4, 4), "float32"),), (np.full((4, 4), 2.0, "float32"),)


@pytest.mark.parametrize(("runs", "kept"), [
    ([TrialRun((2.0, 2.1, 9.0), ONES), TrialRun((4.0, 4.2, 9.0), ONES)], "measured"),
    ([TrialRun((4.3, 4.4, 4.0), ONES), TrialRun((9.0, 3.9, 4.1), ONES)], "expected"),
    ([TrialRun((4.0,), ONES), TrialRun((), ())], "measured"),
    ([TrialRun((), ()), TrialRun((4.0,), ONES)], "expected"),
])  # fmt: skip
def test_the_fastest_build_is_kept(runs: Any, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (tuned if kept == "measured" else plain).library
    assert f"kept the choice by {kept} costs: " in best.report()
    same = fastest({"by measured costs": tuned, "by expected costs": replace(tuned)}, mod)
    assert same.kept == ""


def test_builds_that_cannot_be_run_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = nets.net(two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", _crashing)
    untimed = fastest({"by measured costs": tuned, "by expected costs": plain}, mod)
    assert untimed.library == tuned.library
    assert "kept the choice by measured costs, untimed: it crashes" in untimed.report()


@pytest.mark.parametrize(("wrong", "warning"), [
    ("measured", "the build by measured costs is left out, as its outputs differ from all others"),
    ("expected", "the build by expected costs is left out, as its outputs differ from all others"),
    ("both", "the outputs of all builds differ"),
])  # fmt: skip
def test_a_build_with_other_outputs_is_left_out(
    wrong: str, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {"measured": (TWOS, ONES), "expected": (ONES, TWOS), "both": (TWOS, (-TWOS[0],))}
    first, second = outputs[wrong]
    runs = [TrialRun((1.0,), first), TrialRun((2.0,), second)]
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    with pytest.warns(UserWarning, match=warning):
        best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (plain if wrong == "measured" else tuned).library


def _rounded(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.exp(emit(relax.op.round(x))))


@pytest.mark.parametrize("rounds", [True, False])
def test_builds_may_differ_by_steps_where_values_are_rounded(
    rounds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = (np.float32(1.01) * ONES[0],)
    runs = [TrialRun((1.0,), near), TrialRun((2.0,), ONES)]
    monkeypatch.setattr("opinfo.front.fastest.trial_runs", lambda *_: runs)
    mod = nets.net(_rounded if rounds else two, (4, 4))
    plain, tuned = opinfo.compile(mod, []), opinfo.compile(mod, [BLUE])
    builds = {"by measured costs": tuned, "by expected costs": plain}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        best = fastest(builds, mod, {"of red alone": TrialRun((5.0,), ONES)})
    assert best.library == (tuned if rounds else plain).library
    assert any("is left out" in str(w.message) for w in caught) == (not rounds)
