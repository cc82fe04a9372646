"""Results of candidates: from the database, or by building, checking and timing them.

    candidates of a backend ─ Build ─▶ library ────────────┐
    subjects ─ Build ─▶ library ─ Compute ─▶ cases ────────┴─ Time, on a server ─▶ results

A step is a process of its own with a time limit. Compilers start slowly, so that many candidates
are built as one library; what fails is built again by itself. Each result is stored as it comes.
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
    """The result of each candidate, and which of them were in the database when it was opened.

    Raises `MeasureError` if there is no server; what was measured until then is stored.
    """
    wanted = {c.key: c for c in candidates}
    known = {k for k in wanted if how.store.get(k) is not None}
    missing = [c for k, c in wanted.items() if k not in known]
    done = len(known)
    lock = threading.Lock()

    def put(candidate: Candidate, result: Result) -> None:
        nonlocal done
        with lock:
            how.store.put(candidate.key, result)
            done += 1
            if how.progress is not None:
                how.progress(done, len(wanted), candidate.name)

    if how.progress is not None:
        how.progress(done, len(wanted), "")
    if missing:
        _measure(missing, how, put)
    found = {k: how.store.get(k) for k in wanted}
    return {k: r for k, r in found.items() if r is not None}, wanted.keys() - how.store.new


def _measure(missing: Sequence[Candidate], how: Measure, put: Put) -> None:
    by: dict[str, list[Candidate]] = {}
    for candidate in sorted(missing, key=lambda candidate: candidate.key.ops):
        by.setdefault(candidate.key.backend, []).append(candidate)
    batches = [
        b for found in by.values() for b in together(found, lambda candidate: candidate.subject)
    ]
    session = MeasureSession(how, missing, put)
    pool = ThreadPoolExecutor(session.slots)
    try:
        for future in as_completed([pool.submit(session.measure, b) for b in batches]):
            future.result()
    finally:
        session.close()
        pool.shutdown(cancel_futures=True)
        session.remove()
