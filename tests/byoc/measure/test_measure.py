"""Measured costs: what fails is excluded by itself, what is known is not measured again."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.rpc import base, client
from typer.testing import CliRunner

from opinfo.byoc import Excluded, Measure, Measured, MeasureError, Tracker, dispatch
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.catalog import register
from opinfo.byoc.backend.match import Match
from opinfo.byoc.dispatching.choice.choose import choose
from opinfo.byoc.dispatching.dispatch import Dispatched
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import costs
from opinfo.byoc.measure import run_candidates as running
from opinfo.byoc.measure.candidate import by_backend, by_tvm
from opinfo.byoc.measure.compare import difference, drawn
from opinfo.byoc.measure.costs import Costing
from opinfo.byoc.measure.database import Database
from opinfo.byoc.measure.key import Key
from opinfo.byoc.measure.servers import LocalServers
from opinfo.byoc.measure.subject import Buffer, subject
from opinfo.byoc.measure.tracker import LocalTracker
from opinfo.byoc.process.fork_pool import Died, ForkPool
from opinfo.cli import app
from opinfo.layout.graph.relax_graph import Op

from ...common.run import run
from ...layout import nets
from ..backends.odd import ODD, Killed, Registered, Stubborn, Threads

SHAPE = (8, 32)
#: Long enough for what does not hang, on a machine that is busy.
TIMEOUT = 20.0


def all_sorts(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(relax.op.nn.relu(emit(relax.op.negative(x))))
    y = emit(relax.op.tanh(emit(relax.op.exp(y))))
    return emit(relax.op.sqrt(emit(relax.op.abs(y))))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Dispatched]:
    """All sorts of candidates, measured by two local servers."""
    database = tmp_path_factory.mktemp("measure") / "times.jsonl"
    mod = nets.net(all_sorts, SHAPE)
    done = dispatch(mod, [ODD], measure=Measure(database, servers=2, timeout=TIMEOUT, repeat=3))
    return mod, database, done


def test_what_fails_is_excluded_and_the_rest_is_measured(measured: Any) -> None:
    _, _, done = measured
    assert not any(t.known for t in done.timings)
    found = {t.ops: t.result for t in done.timings if t.backend == "odd"}
    reasons = {ops[0]: r.reason for ops, r in found.items() if isinstance(r, Excluded)}
    assert {ops[0] for ops, r in found.items() if isinstance(r, Measured)} == {
        "relax.negative", "relax.abs",
    }  # fmt: skip
    assert reasons["relax.nn.relu"] == "it crashes: the server's session ended when it was called"
    assert reasons["relax.exp"] == f"it hangs: no result within {TIMEOUT:g} s when it was called"
    assert reasons["relax.tanh"].startswith("its result is wrong: ")
    assert reasons["relax.sqrt"].startswith("it does not build: CompilerError: error: ")
    by_tvm = {t.ops: t.result for t in done.timings if t.backend == "tvm"}
    assert len(by_tvm) > 6 and all(isinstance(r, Measured) for r in by_tvm.values())


def test_what_is_excluded_stays_with_tvm_and_says_why(measured: Any) -> None:
    mod, _, done = measured
    assert {op for t in done.taken for op in t.ops} <= {"relax.negative", "relax.abs"}
    whys = {left.op: left.why for left in done.left}
    assert whys["relax.nn.relu"].startswith("odd, pattern relu: it crashes: ")
    assert whys["relax.exp"].startswith("odd, pattern exp: it hangs: ")
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for a, b in zip(run(mod, [x]), run(done.module, [x]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_second_run_measures_nothing(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mod, database, first = measured

    def refuse(*_: Any) -> None:
        raise AssertionError("something is measured")

    monkeypatch.setattr(running, "MeasureSession", refuse)
    seen: list[tuple[int, int, str]] = []
    again = dispatch(mod, [ODD], measure=Measure(database, progress=lambda *a: seen.append(a)))
    assert all(t.known for t in again.timings)
    assert [t.result for t in again.timings] == [t.result for t in first.timings]
    assert again.taken == first.taken
    assert seen == [(len(first.timings), len(first.timings), "")]
    other = replace(ODD, version=lambda: "2")
    with pytest.raises(AssertionError, match="something is measured"):
        dispatch(mod, [other], measure=Measure(database))
    with pytest.raises(AssertionError, match="something is measured"):
        dispatch(mod, [ODD], measure=Measure(database, threads=2))


def test_the_command_line_uses_the_database(
    measured: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mod, database, done = measured
    model, out = tmp_path / "model.json", tmp_path / "model.so"
    model.write_text(tvm.ir.save_json(mod))
    register(ODD)
    command = ["compile", str(model), "-o", str(out), "--backend", "odd,tvm", "--tune",
               "--database", str(database), "--verify", "--explain",
               "--target", "llvm"]  # fmt: skip
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert f"{len(done.timings)} candidates, 0 measured now, 4 excluded" in told.output
    assert "odd for relax.exp of float32[8, 32], float32[8, 32]: excluded: it hangs" in told.output
    assert out.exists()
    for option, text in (("--tracker", "host:9190"), ("--extent", "n=few")):
        told = CliRunner().invoke(app, [*command, option, text])
        assert told.exit_code == 2
        assert capfd.readouterr().err.startswith(f"opinfo: {option} {text}: expected ")


def test_priority_goes_before_what_was_measured(measured: Any) -> None:
    """In a class above TVM's all that runs is taken, however slow."""
    mod, database, _ = measured
    done = dispatch(mod, [ODD], {"odd": 3, "tvm": 1}, measure=Measure(database))
    assert sorted(t.ops for t in done.taken) == [("relax.abs",), ("relax.negative",)]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkPool]:
    modules = ("opinfo.byoc.backends.example_npu", "there.is.no.such.module")
    made = ForkPool(tmp_path_factory.mktemp("fleet"), 3, modules)
    yield made
    made.close()


def test_a_job_has_a_process_group_of_its_own(processes: ForkPool, tmp_path: Path) -> None:
    assert processes.run(Threads(), 60) == "3"
    assert processes.run(Registered("example_npu.run"), 60)
    with pytest.raises(Died, match="SIGABRT"):
        processes.run(Killed(), 60)
    left, waited = tmp_path / "left", tmp_path / "waited"
    processes.run(Stubborn(str(left), waits=False), 60)
    with pytest.raises(TimeoutError):
        processes.run(Stubborn(str(waited), waits=True), 10)
    for told in (left, waited):
        end = time.monotonic() + 120
        while _runs(int(told.read_text())):
            assert time.monotonic() < end, "what the job started is still there"
            time.sleep(0.1)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(scope="module")
def fleet(processes: ForkPool) -> Iterator[Tracker]:
    """A server that was there before, under a tracker with an address."""
    servers = LocalServers(processes, 1)
    while not servers.address.servers():
        time.sleep(0.1)
    yield servers.address
    servers.close()


def test_a_fleet_and_a_run_that_is_interrupted(fleet: Tracker, tmp_path: Path) -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = nets.net(lambda e, r, x: e(relax.op.abs(e(relax.op.negative(x)))), (n, 4))
    how = Measure(tmp_path / "times.jsonl", fleet, timeout=TIMEOUT, repeat=3, extents={"n": (2, 6)})

    def stop(done: int, total: int, name: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dispatch(mod, [ODD], measure=replace(how, progress=stop))
    how = replace(how, progress=None)
    done = dispatch(mod, [ODD], measure=how)
    assert dispatch(mod, [ODD], measure=how).timings == done.timings
    assert 2 <= sum(t.known for t in done.timings) < len(done.timings)
    assert {t.shapes[0] for t in done.timings} == {"float32[2, 4]", "float32[6, 4]"}
    assert all(isinstance(t.result, Measured) for t in done.timings)


def test_there_is_no_tracker_or_no_server(fleet: Tracker) -> None:
    mod = nets.net(all_sorts, SHAPE)
    with pytest.raises(MeasureError, match="no servers with this key"):
        dispatch(mod, [ODD], measure=Measure(tracker=replace(fleet, key="none"), wait=0.5))
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    with pytest.raises(MeasureError, match="refused"):
        dispatch(mod, [ODD], measure=Measure(tracker=Tracker("127.0.0.1", port, "k")))


def test_tvm_talks_to_the_tracker() -> None:
    tracker = LocalTracker("board")
    try:
        with socket.create_connection(("127.0.0.1", tracker.address.port)) as server:
            server.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
            assert struct.unpack("<i", base.recvall(server, 4))[0] == base.RPC_TRACKER_MAGIC
            for message in ([base.TrackerCode.UPDATE_INFO, {"key": "server:board",
                                                            "addr": [None, 7]}],
                            [base.TrackerCode.PUT, "board", [7, "board:0.5"], None]):  # fmt: skip
                base.sendjson(server, message)
                assert base.recvjson(server) == base.TrackerCode.SUCCESS
            base.sendjson(server, [base.TrackerCode.GET_PENDING_MATCHKEYS])
            assert base.recvjson(server) == ["board:0.5"]
            told = client.connect_tracker("127.0.0.1", tracker.address.port).summary()
            assert told["queue_info"] == {"board": {"free": 1, "pending": 0}}
            assert told["server_info"] == [{"key": "server:board", "addr": ["127.0.0.1", 7]}]
            assert tracker.address.servers() == 1
            assert tracker.address.request(5) == ("127.0.0.1", 7, "board:0.5")
            with pytest.raises(MeasureError, match="no server was free"):
                tracker.address.request(0.2)
            stop = threading.Event()
            threading.Timer(0.3, stop.set).start()
            with pytest.raises(MeasureError, match="the wait for a server was interrupted"):
                tracker.address.request(600, stop)
    finally:
        tracker.close()
    with pytest.raises(MeasureError, match="refused"):
        tracker.address.servers()


def _key(k: int) -> Key:
    return Key(f"{k:x}", ("float32[2]",), "llvm", "odd", "1", "c", "cpu", 1)


def _write(path: Path, first: int) -> None:
    database = Database(path)
    for k in range(first, first + 50):
        database.put(_key(k), Measured(float(k)))
    os._exit(0)


def test_several_processes_write_one_database(tmp_path: Path) -> None:
    path = tmp_path / "new" / "times.jsonl"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write, args=(path, 50 * k)) for k in range(4)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    assert Database(path).results == {_key(k): Measured(float(k)) for k in range(200)}


def test_a_file_of_another_kind_is_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"some\nother\nfile\n")
    with pytest.raises(ValueError, match="is not a database of times: none of its 3 lines"):
        Database(path)
    path.write_bytes(b'{"torn": ')
    with pytest.warns(UserWarning, match="1 entries are ignored"):
        Database(path)


def test_entries_that_cannot_be_read_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    database = Database(path)
    database.put(_key(1), Measured(1.0))
    database.put(_key(1), Excluded("it hangs"))
    good = path.read_text().splitlines()[0]
    bad = ['{"format": 9}', "[1]", good.replace("1.0", "NaN"), good.replace('"llvm"', "7"),
           good.replace('"threads": 1', '"threads": true'), good.replace("1.0", "1" + "0" * 400),
           good[:40]]  # fmt: skip
    path.write_bytes(path.read_bytes() + "\n".join(bad).encode() + b"\n\xff\xfe")
    with pytest.warns(UserWarning, match=r"8 entries are ignored.*lines 3, 4, 5, 6, 7 …"):
        again = Database(path)
    assert again.results == {_key(1): Excluded("it hangs")}
    again.put(_key(2), Measured(2.0))  # after a line that was torn
    with pytest.warns(UserWarning, match="8 entries"):
        assert Database(path).get(_key(2)) == Measured(2.0)


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


def test_times_of_unchecked_results_are_not_stored(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^Measure: checked=False with database='.*' would .*: omit one"
    ):
        Measure(tmp_path / "times.jsonl", checked=False)
    assert not Measure(checked=False).checked


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


def test_without_a_comparison_what_is_wrong_has_a_time(tmp_path: Path) -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.tanh(x)), SHAPE)
    lowered, how = read(mod, "test"), Measure(servers=1, repeat=1, checked=False)
    (op,) = lowered.ops
    candidate = by_backend(ODD, (op,), lowered.infos, subject((op,), {}), how.machine)
    found, _ = running.results([candidate], how)
    assert isinstance(found[candidate.key], Measured)


def test_drawn_values_may_repeat() -> None:
    few, many = (
        drawn([Buffer((8, 9), "float32")], distinct=10)[0],
        drawn([Buffer((8, 9), "float32")]),
    )
    assert len(np.unique(few)) == 10 and len(np.unique(many[0])) == 72
    assert few.shape == (8, 9) and str(few.dtype) == "float32"


def test_names_do_not_count() -> None:
    def both(emit: Any, rng: Any, x: Any, y: Any) -> Any:
        return emit(relax.Tuple([emit(relax.op.add(x, x)), emit(relax.op.add(y, y))]))

    other, same = read(nets.net(both, (2, 3), SHAPE), "test").ops
    (alone,) = read(nets.net(lambda e, r, y: e(relax.op.add(y, y)), SHAPE), "test").ops
    assert same.name != alone.name
    assert subject([same], {}).hash == subject([alone], {}).hash != subject([other], {}).hash


@pytest.mark.parametrize(
    ("dtype", "change", "same"),
    [("float32", 1e-5, True), ("float32", 0.05, False), ("float32", np.nan, False),
     ("float16", 5e-3, True), ("float16", 0.1, False), ("int32", 1, False),
     ("bool", True, False)],
)  # fmt: skip
def test_results_are_compared(dtype: str, change: Any, same: bool) -> None:
    a = np.arange(12).reshape(3, 4).astype(dtype)
    b = a.copy()
    b[0, 0] += change
    assert (difference([b], [a]) is None) == same
    assert difference([a], [a]) is None
    assert "int64[3, 4] instead of" in str(difference([a.astype("int64")], [a]))
    assert difference([], [a]) == "it has 0 results instead of 1"


def test_an_error_of_small_elements_shows_beside_large_ones() -> None:
    """One more than it should be, everywhere, beside a largest value of 3000."""
    a = np.exp(np.linspace(0, 8, 1000)).astype("float32")
    assert difference([a + 1], [a]) is not None


def test_a_configuration_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="timeout must be positive, got 0"):
        Measure(timeout=0)
    with pytest.raises(ValueError, match=r"extents\['n'\] must be positive numbers"):
        Measure(extents={"n": (0,)})


@pytest.mark.parametrize("seed", range(40))
def test_in_the_class_of_tvm_the_cheapest_is_chosen(seed: int) -> None:
    rng = random.Random(seed)
    ops = [Op(str(k), None, None, (), ()) for k in range(6)]
    matches = [
        Match(rng.choice(["a", "b", "tvm"]), "p", tuple(ops[i : i + rng.randint(1, 3)]),
              rng.randint(0, 20))
        for i in (rng.randrange(6) for _ in range(8))
    ]  # fmt: skip
    priority = {"a": rng.choice([2, 3]), "b": rng.choice([1, 2]), "tvm": 2}
    default = {op: float(rng.randint(0, 20)) for op in ops}

    def value(chosen: tuple[Match, ...]) -> tuple[float, ...] | None:
        covered = [op for m in chosen for op in m.ops]
        if len(covered) != len(set(covered)):
            return None
        first = -sum(len(m.ops) for m in chosen if priority[m.backend] > 2)
        left = sum(default[op] for op in ops if op not in covered)
        return (first, sum(m.cost for m in chosen) + left)

    subsets = (c for n in range(9) for c in itertools.combinations(matches, n))
    best = min(v for v in map(value, subsets) if v is not None)
    assert value(choose(matches, priority, default).matches) == pytest.approx(best)
