"""Which builds of a model are made, by what they are predicted to take."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.front import race
from opinfo.front.finalists import BYTE, OPERATOR, seconds, suffices
from opinfo.verify import timed_turns, timing_process
from opinfo.verify.short_parts import seconds_of
from opinfo.verify.trial_runs import TrialRun

from .test_front import model

ONES, TWOS = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")


def _build(path: Path, taken: int, left: int = 0, size: int = 0) -> Any:
    path.write_bytes(bytes(size))
    regions = (SimpleNamespace(ops=("relax.add",) * taken),)
    rest = tuple(SimpleNamespace(op="relax.add") for _ in range(left))
    return SimpleNamespace(library=path, dispatched=SimpleNamespace(taken=regions, left=rest))


def _run(milliseconds: float, output: Any) -> TrialRun:
    return TrialRun((milliseconds,), (output,))


def test_the_largest_build_predicts_the_next_one(tmp_path: Path) -> None:
    builds = {"a": _build(tmp_path / "a", 3, 2, 1000), "b": _build(tmp_path / "b", 1)}
    assert seconds(builds) == pytest.approx(5 * OPERATOR + 1000 * BYTE)
    assert seconds({}) == 0


def test_runtimes_suffice_if_the_fastest_has_all_operators_and_agrees(tmp_path: Path) -> None:
    whole, part = _build(tmp_path / "a", 3), _build(tmp_path / "b", 2, 1)
    builds = {"whole": whole, "part": part}
    failed = TrialRun((), ())
    assert suffices(builds, {"whole": _run(1.0, ONES), "part": _run(2.0, ONES)})
    assert not suffices(builds, {"whole": _run(2.0, ONES), "part": _run(1.0, ONES)})
    assert not suffices(builds, {"whole": _run(1.0, ONES), "part": _run(2.0, TWOS)})
    assert not suffices(builds, {"whole": _run(1.0, ONES), "part": failed})
    assert not suffices(builds, {"whole": failed, "part": failed})
    assert not suffices({"whole": whole}, {"whole": _run(1.0, ONES)}) and not suffices({}, {})


@pytest.mark.skipif(bool(find("openvino").available()), reason="one runtime has no witness")
def test_a_choice_that_takes_long_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "MIXED", -1.0)
    compiled = opinfo.compile(model(4))
    assert "not built: by expected costs, which takes about 0 s" in compiled.kept
    assert "kept the choice of" in compiled.kept
    assert compiled.verify(model(4)).same


def test_a_choice_that_takes_long_is_built_as_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "MIXED", -1.0)
    monkeypatch.setattr(race, "suffices", lambda *_: False)
    assert "by expected costs" in opinfo.compile(model(4)).kept.partition("not built")[0]


@pytest.mark.parametrize("most", [-1.0, 10.0])
def test_runtimes_are_left_out_where_that_is_cheap(
    most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "WITHOUT_RUNTIMES", most)
    monkeypatch.setattr(race, "_taken_by_one", lambda *_: True)
    *_, skipped = opinfo.compile(model(4)).kept.partition("not built")
    assert ("onednn and blas" in skipped) == (most < 0)


def test_a_runtime_no_other_agrees_with_is_never_the_only_finalist(tmp_path: Path) -> None:
    builds = {name: _build(tmp_path / name, 3) for name in "abc"}
    lone = {"a": _run(1.0, TWOS), "b": _run(2.0, ONES), "c": _run(3.0, ONES)}
    assert race._until_agreed("abc", lone, builds) == ["a", "b"]
    assert race._until_agreed("abc", {**lone, "a": _run(1.0, ONES)}, builds) == ["a"]
    assert race._until_agreed("ab", lone, builds) == ["a", "b"]
    assert race._until_agreed("", {}, {}) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_other_processes_do_not_lengthen_calls_of_one_thread(
    threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A call that sleeps has time on the wall's clock only."""
    clocks: list[Any] = []

    def times(calls: Any, clock: Any, whole: bool) -> list[Any]:
        clocks.append(clock)
        return []

    monkeypatch.setattr(timing_process, "timed_turns", times)
    monkeypatch.setattr(sys, "stdin", iter(["[]\n"]))
    monkeypatch.setattr(os, "dup2", lambda *_: 1)
    tvm.runtime.save_param_dict_to_file({}, str(tmp_path / timing_process.INPUTS))
    (tmp_path / timing_process.CALLS).write_text('[["main", []]]')
    timing_process._main(tmp_path, threads, timing_process.CPU)
    (clock,) = clocks
    assert (seconds_of(lambda: time.sleep(0.03), clock) > 0.02) == (threads == 2)


@pytest.mark.parametrize("clock, runs", [(time.process_time, (9, 9, 2, 1)),
                                         (time.perf_counter, (9, 9, 9, 3))])  # fmt: skip
def test_what_cannot_win_is_not_called_again(
    clock: Any, runs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU time or two are enough to know; other processes lengthen times of the wall's clock."""
    monkeypatch.setattr(timed_turns, "PAUSE", 0.0)
    monkeypatch.setattr(timed_turns, "seconds_of", lambda call, _: call())
    seconds = [1.0, 1.05, 1.4, 1.6]
    calls = [None, *(lambda s=s: s for s in seconds)]
    none, *times = timed_turns.timed_turns(calls, clock)
    assert none == [] and [each[0] for each in times] == [1e3 * s for s in seconds]
    assert tuple(map(len, times)) == runs


@pytest.mark.parametrize("seconds, whole, runs", [
    ((1.0, 1.6), True, (3, 1)), ((1.0, 1.6), False, (9, 1)), ((1.0, 1.05), True, (9, 9)),
    ((1.0,), True, (9,)),
])  # fmt: skip
def test_a_call_without_rivals_is_called_the_fewest_times(
    seconds: tuple[float, ...], whole: bool, runs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone call may be compared with those of another process, one of many sizes with all."""
    monkeypatch.setattr(timed_turns, "PAUSE", 0.0)
    monkeypatch.setattr(timed_turns, "SECONDS", 1e9)
    monkeypatch.setattr(timed_turns, "seconds_of", lambda call, _: call())
    calls = [None, *(lambda s=s: s for s in seconds)]
    none, *times = timed_turns.timed_turns(calls, time.process_time, whole)
    assert none == [] and tuple(map(len, times)) == runs


def test_a_part_that_is_interrupted_does_not_count() -> None:
    """Every tenth call takes 20 times as long: the mean would be 2.9 times the others."""
    now = [0.0]
    calls = [0]

    def call() -> None:
        calls[0] += 1
        now[0] += 2e-2 if calls[0] % 10 == 0 else 1e-3

    assert seconds_of(call, lambda: now[0]) == pytest.approx(1e-3)
    now[0], calls[0] = 0.0, 0
    assert seconds_of(lambda: now.__setitem__(0, now[0] + 0.5), lambda: now[0]) == 0.5


@pytest.mark.parametrize("seconds", [0.0, 1e-7, 1e-4, 3e-3])
def test_parts_are_of_calls_that_last_long_enough(seconds: float) -> None:
    """All parts last about as long together, and a clock that stands still ends."""
    now, calls = [0.0], [0]

    def call() -> None:
        calls[0] += 1
        now[0] += seconds

    assert seconds_of(call, lambda: now[0]) == pytest.approx(seconds)
    assert calls[0] * max(seconds, 1e-6) < 2.1e-2
