"""Servers that measure: jobs have processes of their own, and trackers hand servers out."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import relax
from tvm.rpc import base, client

from opinfo.byoc import Measure, Measured, MeasureError, Tracker, dispatch
from opinfo.byoc.measure.local_servers import LocalServers
from opinfo.byoc.measure.tracker import LocalTracker
from opinfo.byoc.process.fork_pool import Died, ForkPool

from ...layout import nets
from ..backends.odd import ODD, Killed, Registered, Stubborn, Threads
from .test_measure import SHAPE, TIMEOUT, all_sorts


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
    for file in (left, waited):
        end = time.monotonic() + 120
        while _runs(int(file.read_text())):
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
            summary = client.connect_tracker("127.0.0.1", tracker.address.port).summary()
            assert summary["queue_info"] == {"board": {"free": 1, "pending": 0}}
            assert summary["server_info"] == [{"key": "server:board", "addr": ["127.0.0.1", 7]}]
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
