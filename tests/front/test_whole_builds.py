"""A choice that comes down to one runtime, which is built alone already, is not built again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opinfo.byoc.building.whole_builds import whole_build
from opinfo.front import fastest as module
from opinfo.front.fastest import run_or_rebuild
from opinfo.verify import free_memory
from opinfo.verify.trial_runs import TrialRun

ONES = (np.ones((2, 2), "float32"),)


class _Op:
    def __init__(self, name: str, cost: float) -> None:
        self.name, self.cost = name, cost


def _same(inside: dict[str, list[float]], left: dict[str, list[float]], alone: list[str]) -> Any:
    """The answer for regions by backend with their costs, and for operators that are left."""
    ops = [_Op(name, cost) for name, costs in left.items() for cost in costs]
    regions = [SimpleNamespace(backend=b, cost=c, ops=()) for b, cs in inside.items() for c in cs]
    chosen: Any = SimpleNamespace(matches=regions, staying={op: op.cost for op in ops})
    lowered: Any = SimpleNamespace(ops=ops, infos={op: SimpleNamespace(info=op) for op in ops})
    return whole_build(chosen, lowered, {"red": alone})


@pytest.mark.parametrize(("inside", "left", "alone", "same"), [
    ({"red": [100.0]}, {}, [], True),
    ({"red": [60.0, 40.0]}, {"add": [1.0]}, [], True),
    ({"red": [100.0]}, {"add": [3.0]}, [], False),  # tvm has a part that counts
    ({"red": [100.0]}, {"take": [30.0]}, ["take"], True),  # as in the build alone
    ({"red": [100.0]}, {"take": [30.0, 1.0]}, ["take"], False),  # the dearer one may be new
    ({"red": [100.0]}, {}, ["take"], False),  # the build alone leaves more to tvm
    ({"red": [100.0]}, {"add": [1.0]}, ["take"], False),
    ({"red": [100.0], "blue": [1.0]}, {}, [], False),
    ({"blue": [100.0]}, {}, [], False),
    ({}, {"add": [1.0]}, [], False),
    ({"red": [99.0], "tvm": [1.0]}, {}, [], True),
])  # fmt: skip
def test_only_a_choice_of_one_backend_is_the_same(
    inside: Any, left: Any, alone: list[str], same: bool
) -> None:
    assert _same(inside, left, alone) == ("red" if same else None)


def _build(path: Path) -> Any:
    path.write_bytes(bytes(1000))
    return SimpleNamespace(library=path)


@pytest.mark.parametrize(("free", "together"), [(1e9, True), (5000.0, False)])
def test_builds_that_do_not_fit_into_memory_run_one_by_one(
    free: float, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(builds: Any, model: Any, process: Any = None) -> Any:
        ran.append(list(builds))
        return {name: TrialRun((1.0,), ONES) for name in builds}

    monkeypatch.setattr(module, "run_builds", run)
    monkeypatch.setattr(free_memory, "available", lambda: free)
    builds = {name: _build(tmp_path / name) for name in "ab"}
    mended, runs = run_or_rebuild(builds, lambda name, error: None, None)
    assert ran == ([["a", "b"]] if together else [["a"], ["b"]])
    assert list(mended) == list(runs) == ["a", "b"]


def test_a_build_that_ends_the_process_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is not built again, though the process in which both ran is gone."""

    def run(builds: Any, model: Any, process: Any = None) -> Any:
        if "b" in builds:
            raise RuntimeError("killed")
        return {name: TrialRun((1.0,), ONES) for name in builds}

    again: list[tuple[str, str]] = []
    monkeypatch.setattr(module, "run_builds", run)
    builds = {name: _build(tmp_path / name) for name in "ab"}

    def rebuilt(name: str, error: str) -> None:
        again.append((name, error))

    mended, runs = run_or_rebuild(builds, rebuilt, None)
    assert again == [("b", "killed")] and list(mended) == list(runs) == ["a"]


def test_memory_that_is_unknown_does_not_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "INFO", tmp_path / "absent")
    assert free_memory.available() == float("inf")
    info = tmp_path / "info"
    info.write_text("MemTotal: 9 kB\nMemAvailable:  3 kB\n")
    monkeypatch.setattr(free_memory, "INFO", info)
    assert free_memory.available() == 3072
    (tmp_path / "library").write_bytes(bytes(1024))
    assert free_memory.fit([tmp_path / "library"])
    assert not free_memory.fit([tmp_path / "library"] * 2)
