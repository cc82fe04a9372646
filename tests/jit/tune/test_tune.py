"""Tuning of the shapes that came in: what is searched for, what is kept, what is used."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from typer.testing import CliRunner

from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.dims.symbolic_dims import bind
from opinfo.byoc.measure import Measure
from opinfo.cli import app
from opinfo.jit import Aot, Compiler, Config, specialize_shapes
from opinfo.jit.kernels import build_kernel as kernel
from opinfo.jit.kernels import worker
from opinfo.jit.tune import tune as tuning
from opinfo.jit.tune.schedule_database import (
    RECORDS,
    SEARCHED,
    WORKLOADS,
    OpenDatabase,
    TuneError,
    tuned,
)
from opinfo.jit.tune.tune import tasks, tune

from ..kernels import model, product
from .tuning_bench import LLVM, Bench, recording


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Bench]]:
    monkeypatch.setattr(tuning, "KernelBench", Bench)
    Bench.asked, Bench.wrong, Bench.turns = [], 0, (3.0, 7.0)
    yield Bench


def test_the_most_frequent_shapes_first_and_each_once() -> None:
    kept = recording((3, 2), (5, 7))
    kept.add("other site", "f", {"n": 3}, 6)
    kept.add("site", "g", {"n": 3})
    kept.add("site", "f", {"m": 3})
    with pytest.warns(UserWarning) as caught:
        found = tasks(kept)
    assert [(t.shape.values, t.calls) for t in found] == [((("n", 3),), 8), ((("n", 5),), 7)]
    tvm.ir.assert_structural_equal(found[0].func, bind(product(None, 16, 16), {"n": 3}))
    messages = sorted(str(w.message) for w in caught)
    assert "expected values for ['n'], got values for ['m']" in messages[0]
    assert messages[1] == "site: n=3 is not tuned: its function was not recorded"


def test_what_was_found_is_used_and_the_fastest_of_it(tmp_path: Path, bench: Any) -> None:
    (task,) = tasks(recording((4, 1)))
    seen: list[tuple[int, int, str]] = []
    (found,) = tune([task], tmp_path, trials=3, progress=lambda *step: seen.append(step))
    assert (found.trials, found.new, found.calls, found.failed) == (3, 3, 1, ())
    assert (found.microseconds, found.structure) == (3.0, 7.0)
    assert seen[-1] == (3, 3, "site: n=4") and sum(bench.asked) == 3
    best = OpenDatabase(tmp_path).best(task.func, LLVM)
    assert best is not None and float(best.run_secs[0]) == pytest.approx(1e-3 / 3)
    got = tuned(tmp_path, task.func, LLVM)
    assert got is not None and got.attrs["global_symbol"] == "kernel"
    assert tuned(tmp_path, bind(product(None, 16, 16), {"n": 5}), LLVM) is None
    assert tuned(tmp_path, task.func, {"kind": "llvm", "mcpu": "znver3"}) is None
    assert tuned(tmp_path, task.func.with_attr("global_symbol", "b"), "llvm") is not None
    x, w = np.ones((4, 16), "float32"), np.arange(256, dtype="float32").reshape(16, 16)
    out = tvm.runtime.tensor(np.zeros((4, 16), "float32"))
    built = tvm.tirx.build(got, target=LLVM)["kernel"]
    built(tvm.runtime.tensor(x), tvm.runtime.tensor(w), out)
    np.testing.assert_array_equal(out.numpy(), x @ w)


def test_what_has_enough_trials_is_not_searched_for_again(tmp_path: Path, bench: Any) -> None:
    todo = tasks(recording((4, 1)))
    tune(todo, tmp_path, trials=2)
    bench.asked.clear()
    (found,) = tune(todo, tmp_path, trials=2)
    assert bench.asked == [] and (found.trials, found.new) == (2, 0)
    (found,) = tune(todo, tmp_path, trials=3)
    assert bench.asked == [1] and found.new == 1


def test_failed_trials_are_reported_and_never_used(tmp_path: Path, bench: Any) -> None:
    bench.wrong = 1000
    (task,) = tasks(recording((4, 1)))
    (found,) = tune([task], tmp_path, trials=2)
    assert (found.trials, found.microseconds) == (0, None)
    assert found.failed == ("it is wrong",) * found.new and found.new >= 2
    assert tuned(tmp_path, task.func, LLVM) is None and not (tmp_path / SEARCHED).exists()
    bench.wrong = 1
    (found,) = tune([task], tmp_path, trials=3)
    assert len(found.failed) == 1 and found.trials == 2 and found.microseconds == 3.0


def test_a_database_that_others_can_write_is_not_read(
    tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its traces may hold any pragma, so they decide on code."""
    monkeypatch.setattr("opinfo.byoc.process.trust._is_private", lambda _: False)
    (task,) = tasks(recording((4, 1)))
    folder = tmp_path / "a" / "database"
    tune([task], folder, trials=1)
    assert tuned(folder, task.func, LLVM) is not None
    for changed, mode in ((folder, 0o777), (folder.parent, 0o777), (folder / RECORDS, 0o666)):
        before = changed.stat().st_mode
        changed.chmod(mode)
        with pytest.raises(TuneError, match=r"not used: .*(other users|only this user)"):
            tuned(folder, task.func, LLVM)
        changed.chmod(before)
    assert tuned(folder, task.func, LLVM) is not None


def test_time_that_is_over_ends_the_search(tmp_path: Path, bench: Any) -> None:
    todo = tasks(recording((4, 2), (5, 1)))
    found = tune(todo, tmp_path, trials=2, seconds=1e-9)
    assert bench.asked == [] and [f.microseconds for f in found] == [None, None]


def test_one_process_at_a_time(tmp_path: Path, bench: Any) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TuneError, match="another process is tuning into"):
            tune(tasks(recording((4, 1))), tmp_path)


def test_a_torn_line_is_mended_and_no_reader_minds(tmp_path: Path, bench: Any) -> None:
    todo = tasks(recording((4, 1)))
    tune(todo, tmp_path, trials=2)
    whole = (tmp_path / RECORDS).read_bytes()
    (tmp_path / RECORDS).write_bytes(whole + whole[:100])
    assert tuned(tmp_path, todo[0].func, LLVM) is not None
    with pytest.warns(UserWarning, match="the incomplete last line was removed"):
        (found,) = tune(todo, tmp_path, trials=2)
    assert found.trials == 2 and (tmp_path / RECORDS).read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "text"), [(WORKLOADS, "{]\n"), (RECORDS, "3\n"), (SEARCHED, "[]")]
)
def test_an_invalid_database_is_refused(tmp_path: Path, bench: Any, name: str, text: str) -> None:
    todo = tasks(recording((4, 1)))
    tune(todo, tmp_path, trials=1)
    (tmp_path / name).write_text(text)
    with pytest.raises(TuneError, match=f"{tmp_path} is not a tuning database"):
        tuned(tmp_path, todo[0].func, LLVM)
    with pytest.raises(TuneError, match="not a tuning database"):
        OpenDatabase(tmp_path / "absent")


def test_the_next_compile_uses_what_was_found(tmp_path: Path, bench: Any) -> None:
    """Kernels for shapes that come in, by whoever compiles them, and those ahead of time."""
    func, native = product(None, 16, 16), native_target()
    tune(tasks(recording((4, 1))), tmp_path / "db", Measure(target=str(native)), trials=2)
    known = OpenDatabase(tmp_path / "db")
    rules = [
        kernel.KernelBuilder(func, native, known).make({"n": n}, tmp_path / f"{n}.so", False).rule
        for n in (4, 5)
    ]
    assert rules[0] == "tuned" != rules[1]
    ask = {"function": "f", "text": tvm.ir.save_json(func), "values": {"n": 4}, "check": False,
           "winograd": True, "target": str(native), "library": str(tmp_path / "w.so"),
           "generic": None}  # fmt: skip
    rules = [worker._answer({**ask, "tuned": t}, {})["rule"] for t in (str(tmp_path / "db"), None)]
    assert rules[0] == "tuned" != rules[1]
    versions = {Compiler().schedules, Compiler(tuned=tmp_path / "db").schedules, known.version}
    assert "" in versions and len(versions) == 2
    given = Config(Aot(buckets={"n": (4,)}))
    one, two = (specialize_shapes(model(None, 16, 16), c, native).module["fused_matmul_relu"]
                for c in (given, replace(given, tuned=tmp_path / "db")))  # fmt: skip
    assert not tvm_ffi.structural_equal(one, two)
    structure = kernel.KernelBuilder(func, native).make({"n": 4}, tmp_path / "s.so", False).rule
    for turns, rule in [((7.0, 3.0), structure), ((3.0, 7.0), "tuned")]:
        bench.turns = turns
        tune(tasks(recording((4, 1))), tmp_path / rule, Measure(target=str(native)), trials=1)
        again = kernel.KernelBuilder(func, native, OpenDatabase(tmp_path / rule))
        assert again.make({"n": 4}, tmp_path / "a.so", False).rule == rule
    for n in (4, 5):
        x, w = np.ones((n, 16), "float32"), np.arange(256, dtype="float32").reshape(16, 16)
        out = tvm.runtime.tensor(np.zeros((n, 16), "float32"))
        run = tvm.tirx.build(two.with_attr("global_symbol", "kernel"), target=native)["kernel"]
        run(tvm.runtime.tensor(x), tvm.runtime.tensor(w), out)
        np.testing.assert_array_equal(out.numpy(), x @ w)


def test_a_failed_search_is_reported_and_the_rest_is_tuned(
    tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tasks(recording((4, 2), (5, 1)))
    odd = replace(first, func=product(None, 16, 16))  # not bound
    one, two = tune([odd, second], tmp_path, trials=1)
    assert one.trials == 0 and "the search failed: parameter" in one.failed[0]
    assert two.trials == 1


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"seconds": -1.0}])
def test_numbers_are_positive(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"tune: {next(iter(wrong))} must be positive"):
        tune([], tmp_path, **wrong)


def run_cli(*words: object) -> Any:
    return CliRunner().invoke(app, ["tune", *map(str, words)])


def test_the_command_tells_what_was_found(tmp_path: Path, bench: Any) -> None:
    recording((4, 2), (5, 1)).save(tmp_path / "shapes.json")
    words = (tmp_path / "shapes.json", "--database", tmp_path / "db", "--trials", 1)
    got = run_cli(*words)
    assert got.exit_code == 0, got.output
    head, first, second, _, last = got.stdout.splitlines()
    names = "site shape calls trials new best us by structure failed why"
    assert head.split() == names.split()
    assert first.split() == ["site", "n=4", "2", "1", "1", "3.0", "7.0", "0"]
    assert second.split()[:5] == ["site", "n=5", "1", "1", "1"]
    where = f"new trials, in {tmp_path / 'db'}"
    assert last == f"2 shapes, 2 of them faster than the rule's schedule; 2 {where}"
    assert "0 new trials" in run_cli(*words, "--top", 1).stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [(["absent.json", "--database", "db"], "absent.json: no such file"),
     (["BROKEN", "--database", "db"], "is not a recording of shapes"),
     (["RECORD", "--database", "DB", "--tracker", "here"], "expected HOST:PORT/KEY"),
     (["RECORD", "--database", "DB", "--seconds", "-1"], "expected a positive number of seconds")],
)  # fmt: skip
def test_errors_are_one_line(
    tmp_path: Path, words: list[str], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    recording((4, 2)).save(tmp_path / "shapes.json")
    (tmp_path / "broken.json").write_text("{}")
    names = {"RECORD": tmp_path / "shapes.json", "BROKEN": tmp_path / "broken.json",
             "DB": tmp_path / "db"}  # fmt: skip
    got = run_cli(*(names.get(w, w) for w in words))
    err = capfd.readouterr().err
    assert (got.exit_code, got.stdout) == (2, "")
    assert err.startswith("opinfo: ") and err.count("\n") == 1 and line in err
