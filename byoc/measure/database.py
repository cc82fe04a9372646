"""Results in a file of JSON lines, one for each candidate, appended as they come.

Any number of processes may write it: each line is appended whole, under a lock. A malformed line is
ignored with a warning, but not removed; of several lines with one key, the last one counts.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...analysis.support.files.regular_files import content
from ...analysis.support.warn import warn
from .measured import Excluded, Measured, Result
from .timing_key import Key

FORMAT = 1


class Database:
    """Stored results, in memory only without ``path``; ``new`` has the keys that were put here."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.lock = threading.Lock()
        self.results: dict[Key, Result] = dict(self._read())
        self.new: set[Key] = set()

    def get(self, key: Key) -> Result | None:
        return self.results.get(key)

    def put(self, key: Key, result: Result) -> None:
        """Store a result. Raises ``OSError`` if the file cannot be written."""
        line = json.dumps({"format": FORMAT, "key": key.to_json(), "result": _to_json(result)})
        with self.lock:
            self.results[key] = result
            self.new.add(key)
            if self.path is not None:
                _append(self.path, line)

    def _read(self) -> Iterator[tuple[Key, Result]]:
        if self.path is None or not self.path.exists():
            return
        bad, good = [], 0
        lines = content(self.path).split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = _entry(json.loads(line))
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
                bad.append(number)
                continue
            good += 1
            yield entry
        if len(bad) > 1 and not good:  # a single one may be from a process killed while writing
            raise ValueError(
                f"{self.path} is not a database of times: none of its {len(bad)} lines is an "
                "entry; choose another file"
            )
        if bad:
            shown = ", ".join(map(str, bad[:5])) + (" …" if len(bad) > 5 else "")
            warn(f"{self.path}: {len(bad)} entries are ignored: they are malformed or have another "
                 f"format, lines {shown}")  # fmt: skip


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = file.seek(0, os.SEEK_END)
        torn = False
        if end:
            file.seek(end - 1)
            torn = file.read(1) != b"\n"  # of a process that was killed while writing
        file.write(b"\n" * torn + line.encode() + b"\n")


def _to_json(result: Result) -> dict[str, Any]:
    if isinstance(result, Measured):
        return {"microseconds": result.microseconds}
    return {"excluded": result.reason}


def _entry(data: Any) -> tuple[Key, Result]:
    if data["format"] != FORMAT:
        raise ValueError("it has another format")
    key, result = Key.from_json(data["key"]), data["result"]
    if "excluded" in result:
        return key, Excluded(str(result["excluded"]))
    time = float(result["microseconds"])
    if not (math.isfinite(time) and time >= 0):
        raise ValueError("it has no time")
    return key, Measured(time)
