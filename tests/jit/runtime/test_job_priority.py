"""Kernels arrive on a busy machine: jobs that starve get a higher priority."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from opinfo.jit.kernels.job_priority import FREE, PATIENT, STARVED, URGENT, JobPriority, measured


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def in_a_thread(work: Callable[[], Any]) -> Any:
    """`JobPriority` changes the priority of its thread for good, so tests use one of their own."""
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(work()))
    thread.start()
    thread.join()
    return out[0]


def test_jobs_that_starve_are_followed_by_urgent_ones_until_the_machine_is_free() -> None:
    base = niceness()
    shares = [1.0, STARVED - 0.1, STARVED, FREE - 0.1, FREE, 0.9]

    def served() -> list[int]:
        remaining = iter(shares)
        priority = JobPriority(lambda job: (job(), next(remaining)))
        return [priority.run(niceness) for _ in shares]

    low, high = min(base + PATIENT, 19), min(base + URGENT, 19)
    assert in_a_thread(served) == [low, low, high, high, high, low]


def test_an_error_of_a_job_is_raised_and_the_next_one_runs() -> None:
    def served() -> int:
        priority = JobPriority()
        with pytest.raises(ZeroDivisionError):
            priority.run(lambda: 1 // 0)
        return priority.run(lambda: 7)

    assert in_a_thread(served) == 7


def test_the_share_is_of_the_time_that_passed() -> None:
    _, idle = measured(lambda: time.sleep(0.2))
    assert idle < 0.2
