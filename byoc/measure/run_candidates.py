"""Results of candidates: from the database, or by building, checking and timing them.

    candidates of a backend ─ Build ─▶ library ────────────┐
    subjects ─ Build ─▶ library ─ Compute ─▶ cases ────────┴─ Time, on a server ─▶ results

Each step is a process with a time limit. Compilers start slowly, so many candidates are built as
one library; if that fails, they are built one by one. Each result is stored at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from .candidate import Candidate
from .key import Key
from .measure import Measure
from .measure_session import MeasureSession, Put, together
from .measured import Result


def results(candidates: Iterable[Candidate], how: Measure) -> tuple[dict[Key, Result], set[Key]]:
    """The result of each candidate, and the keys that were in the database when it was opened.

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
            how.store.put(candidate.key, result)
            count += 1
            if how.progress is not None:
                how.progress(count, len(by_key), candidate.name)

    if how.progress is not None:
        how.progress(count, len(by_key), "")
    if missing:
        _measure(missing, how, put)
    outcomes = {k: how.store.get(k) for k in by_key}
    return {k: r for k, r in outcomes.items() if r is not None}, by_key.keys() - how.store.new


def _measure(missing: Sequence[Candidate], how: Measure, put: Put) -> None:
    by: dict[str, list[Candidate]] = {}
    for candidate in sorted(missing, key=lambda candidate: candidate.key.ops):
        by.setdefault(candidate.key.backend, []).append(candidate)
    batches = [
        batch
        for group in by.values()
        for batch in together(group, lambda candidate: candidate.subject)
    ]
    session = MeasureSession(how, missing, put)
    pool = ThreadPoolExecutor(session.slots)
    try:
        for future in as_completed([pool.submit(session.measure, batch) for batch in batches]):
            future.result()
    finally:
        session.close()
        pool.shutdown(cancel_futures=True)
        session.remove()
