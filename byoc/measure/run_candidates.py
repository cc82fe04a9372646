"""Results of candidates: from the database, or by building, checking and timing them.

    candidates of a backend ─ Build ─▶ library ────────────┐
    subjects ─ Build ─▶ library ─ Compute ─▶ cases ────────┴─ Time, on a server ─▶ results

Each step is a process with a time limit. Compilers start slowly, so many candidates are built as
one library; if that fails, they are built one by one. Each result is stored at once. With a limit
for all, candidates are taken in the order in which they are given, and what runs then is ended.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from .candidate import Candidate
from .measure import Measure
from .measure_session import MeasureSession, Put, batch_size, together
from .measured import Result
from .timing_key import Key


def results(candidates: Iterable[Candidate], how: Measure) -> tuple[dict[Key, Result], set[Key]]:
    """The result of each candidate, and the keys that were in the database when it was opened.

    What was not measured within ``how.seconds`` has no result.

    Raises `MeasureError` if no server is free; earlier results are stored.
    """
    by_key = {c.key: c for c in candidates}
    stored = {k for k in by_key if how.store.get(k) is not None}
    missing = [c for k, c in by_key.items() if k not in stored]
    count = len(stored)
    lock = threading.Lock()

    def put(candidate: Candidate, result: Result) -> None:
        nonlocal count
        with lock:
            if time.monotonic() > how.deadline:
                return  # it was ended
            how.store.put(candidate.key, result)
            count += 1
            if how.progress is not None:
                how.progress(count, len(by_key), candidate.name)

    if how.progress is not None:
        how.progress(count, len(by_key), "")
    if missing and time.monotonic() < how.deadline:
        _measure(missing, how, put)
    outcomes = {k: r for k in by_key if (r := how.store.get(k)) is not None}
    return outcomes, outcomes.keys() - how.store.new


def _measure(missing: Sequence[Candidate], how: Measure, put: Put) -> None:
    session = MeasureSession(how, missing, put)
    pool = ThreadPoolExecutor(session.builders)
    try:
        futures = [pool.submit(session.measure, batch) for batch in _batches(missing, how)]
        left = None if how.deadline == math.inf else max(0.0, how.deadline - time.monotonic())
        done, _ = wait(futures, left, FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        session.close()
        pool.shutdown(cancel_futures=True)
        session.remove()


def _batches(missing: Sequence[Candidate], how: Measure) -> list[list[Candidate]]:
    """Candidates of one backend each; under a limit, in the order of their first ones."""
    limited = how.seconds is not None
    ordered = list(missing) if limited else sorted(missing, key=lambda c: c.key.ops)
    by: dict[str, list[Candidate]] = {}
    for candidate in ordered:
        by.setdefault(candidate.key.backend, []).append(candidate)
    out = [
        batch
        for group in by.values()
        for batch in together(group, lambda c: c.subject, batch_size(how))
    ]
    place = {c.key: n for n, c in enumerate(ordered)}
    return sorted(out, key=lambda batch: place[batch[0].key]) if limited else out
