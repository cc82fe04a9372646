"""Several threads may call one compiled model."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tvm

from opinfo.front.compiled_model import Compiled


def test_a_virtual_machine_runs_one_call_at_a_time() -> None:
    running = threading.Semaphore(1)

    def main(*_: Any) -> Any:
        assert running.acquire(blocking=False)
        time.sleep(0.01)
        running.release()
        return ()

    result: Any = None
    signatures: Any = {"main": None}
    compiled = Compiled(tvm.target.Target("llvm"), result, signatures)
    compiled.__dict__["_machine"] = {"main": main}
    compiled.__dict__["_boundaries"] = {"main": lambda values: (values, None)}
    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(compiled.run) for _ in range(8)]
        assert [call.result() for call in calls] == [()] * 8
