"""What is measured, how often and for how long, and what the costs are then."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.byoc import Excluded, Measure, Measured, dispatch
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.match import Match
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import costs
from opinfo.byoc.measure import run_candidates as running
from opinfo.byoc.measure.candidate import by_tvm
from opinfo.byoc.measure.costs import Costing
from opinfo.byoc.measure.database import Database
from opinfo.byoc.measure.subject import subject

from ...layout import nets
from ..backends.odd import ODD
from .test_measure import SHAPE, all_sorts


def test_the_cost_is_the_mean_over_likely_extents(monkeypatch: pytest.MonkeyPatch) -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = nets.net(lambda e, r, x: e(relax.op.negative(x)), (n, n * 2))
    slow = replace(ODD, name="slow")

    def made_up(candidates: Any, how: Measure) -> Any:
        times = {"tvm": 6.0, "odd": 1.0, "slow": 4.0}
        return {c.key: Measured(times[c.key.backend] * c.subject.buffers[0].shape[0])
                if c.key.backend != "slow" or c.subject.buffers[0].shape[0] < 9
                else Excluded("it hangs") for c in candidates}, set()  # fmt: skip

    monkeypatch.setattr(costs, "results", made_up)
    how = Measure(extents={"n": [1, 3, 8], "m": [5]})
    done = dispatch(mod, [ODD, slow], measure=how)
    assert {t.shapes[0] for t in done.timings} == {
        "float32[1, 2]", "float32[3, 6]", "float32[8, 16]",
    }  # fmt: skip
    assert [t.backend for t in done.taken] == ["odd"]
    _, (m,) = costing_of(mod, [slow], how)
    assert m.cost == pytest.approx(4 * (1 + 3 + 8) / 3)
    costing, matches = costing_of(mod, [slow], Measure(extents={"n": [1, 9]}))
    assert not matches
    assert list(costing.reasons.values()) == ["slow, pattern negative: it hangs"]
    assert {t.shapes[0] for t in dispatch(mod, [ODD], measure=Measure()).timings} == {
        "float32[16, 32]"
    }


def costing_of(mod: Any, backends: list[Backend], how: Measure) -> tuple[Costing, list[Match]]:
    """Costs, and the matches of backends that may be chosen."""
    lowered = read(mod, "test")
    costing = Costing(lowered.ops, lowered.infos, backends, how)
    return costing, [m for m in costing(lowered.matches(backends)) if m.backend != "tvm"]


def test_what_is_the_same_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def made_up(candidates: Any, how: Measure) -> Any:
        asked.extend({c.key for c in candidates})
        return {c.key: Measured(1.0) for c in candidates}, set()

    def twice(emit: Any, rng: Any, x: Any) -> Any:
        a = emit(relax.op.negative(emit(relax.op.add(x, nets.const(rng, *SHAPE)))))
        return emit(relax.op.negative(emit(relax.op.add(a, nets.const(rng, *SHAPE)))))

    monkeypatch.setattr(costs, "results", made_up)
    dispatch(nets.net(twice, SHAPE), [ODD], measure=Measure())
    # Of TVM: each operator, the three that are fused from the first match on, and the last two.
    assert sorted(k.backend for k in asked) == ["odd", "tvm", "tvm", "tvm", "tvm"]


def test_what_is_not_measured_in_time_costs_what_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def first_two(candidates: Any, how: Measure) -> Any:
        asked.extend(c.key.backend for c in candidates)
        return {c.key: Measured(2.5) for c in candidates[:2]}, set()

    expected = {"negative": 3.0, "abs": 9.0, "relu": 5.0}
    few = tuple(p for p in ODD.patterns if p.name in expected)
    cost = lambda placed: expected[placed.calls[0].op.rpartition(".")[2]]  # noqa: E731
    priced = replace(ODD, patterns=few, cost=cost)
    monkeypatch.setattr(costs, "results", first_two)
    with pytest.warns(UserWarning, match=r"ended after 9 s: of \d+ candidates 2 are measured"):
        costing, matches = costing_of(nets.net(all_sorts, SHAPE), [priced], Measure(seconds=9))
    assert {m.pattern: m.cost for m in matches} == {"abs": 2.5, "relu": 2.5, "negative": 3.0}
    assert asked == [*["odd"] * 3, *["tvm"] * (len(asked) - 3)]
    assert not costing.tvm_times and len(costing.timings) == 2
    (negative,) = (m for m in matches if m.pattern == "negative")
    (taken,) = (m for m in matches if m.pattern == "abs")
    assert costing.source("odd", negative.ops) == "estimated"
    assert costing.source("odd", taken.ops) == "measured"


def test_the_limit_starts_again_with_each_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    now, left, seen = 0.0, list[float](), list[Measure]()

    def asked(candidates: Any, how: Measure) -> Any:
        nonlocal now
        left.append(how.deadline - now)
        seen.append(how)
        now += 100.0
        return {c.key: Measured(1.0) for c in candidates}, set()

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(costs, "results", asked)
    mod, how = nets.net(lambda e, r, x: e(relax.op.abs(x)), SHAPE), Measure(seconds=20)
    for _ in range(2):
        dispatch(mod, [ODD], measure=how)
    assert left == [20.0, 20.0]
    assert all(h.store is how.store for h in seen)


def test_a_limit_ends_what_runs_and_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mod = nets.net(all_sorts, SHAPE)
    lowered, how = read(mod, "test"), Measure(tmp_path / "times.jsonl", seconds=0.5)
    candidates = [by_tvm(subject((op,), {}), how.machine) for op in lowered.ops]
    closed = threading.Event()

    class Session:
        builders = 2

        def __init__(self, how: Measure, missing: Any, put: Any) -> None:
            self.put = put

        def measure(self, batch: Any) -> None:
            self.put(batch[0], Measured(1.0))
            assert closed.wait(60)
            self.put(batch[1], Excluded("its compiler crashes"))  # as a job that is killed

        close, remove = staticmethod(closed.set), staticmethod(lambda: None)

    monkeypatch.setattr(running, "MeasureSession", Session)
    found, stored = running.results(candidates, how)
    assert found == {candidates[0].key: Measured(1.0)} and not stored
    assert Database(tmp_path / "times.jsonl").get(candidates[1].key) is None
    again, stored = running.results(candidates, how)  # its time is over
    assert again == found
    assert Database(tmp_path / "times.jsonl").get(candidates[0].key) == Measured(1.0)
