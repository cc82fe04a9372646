"""A worker process, and what it says of models; a job whose worker dies is repeated by way."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from opinfo.byoc.process.line_process import LineProcess, ProcessDied

from .minimise import minimised
from .random_model import Model

#: CPU seconds of a job.
SECONDS = 120.0
#: Jobs of one process, whose memory grows with what it loads.
JOBS = 60
BAD = ("wrong", "raised", "died", "timed out", "refused badly")


@dataclass
class Worker(LineProcess):
    """A process that takes jobs; see `fuzz_worker.py`."""

    seconds: float = SECONDS
    name: ClassVar[str] = "fuzzer"

    def rows(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of a job. Raises `ProcessDied`."""
        self._start()
        return list(self._ask(job, "a model")["rows"])


@dataclass
class Fuzzer:
    """Judges models one by one in a process that is used again.

    Attributes:
        nodes: About how many nodes a model has; 0 for 5 to 40.
    """

    nodes: int = 0
    _scratch: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="onnx-fuzz-")
    )
    _worker: Worker | None = None
    _jobs: int = 0

    @property
    def folder(self) -> Path:
        """Where models are written; it is removed with this object."""
        return Path(self._scratch.name)

    def judged(self, seed: int, ways: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a seed."""
        yield from self._rows({"seed": seed, "nodes": self.nodes, "ways": list(ways)})

    def judged_model(self, model: Model, ways: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of a model."""
        path = self.folder / "smaller.onnx"
        model.save(path)
        return list(self._rows({"file": str(path), "ways": list(ways)}))

    def minimised(self, model: Model, row: dict[str, Any], path: Path) -> Model:
        """Write and return a small model with the same verdict in the same way."""

        def fails(smaller: Model) -> bool:
            rows = self.judged_model(smaller, [row["way"]])
            return any(_alike(r, row) for r in rows)

        small = minimised(model, fails)
        small.save(path)
        return small

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
        self._worker, self._jobs = None, 0

    def _rows(self, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._jobs >= JOBS:
            self.close()
        if self._worker is None:
            command = (sys.executable, "-m", "benchmarks.onnx_fuzz.fuzz_worker", str(self.folder))
            self._worker = Worker(command=command)
        self._jobs += 1
        try:
            yield from self._worker.rows(job)
        except ProcessDied as error:
            phase = (self.folder / "phase").read_text()
            self.close()
            if phase != "generate" and len(job["ways"]) > 1:
                for way in job["ways"]:
                    yield from self._rows({**job, "ways": [way]})
                return
            verdict = "timed out" if "took more than" in str(error) else "died"
            verdict = "no oracle" if phase == "generate" else verdict
            yield {"seed": job.get("seed"), "way": job["ways"][0], "verdict": verdict,
                   "why": str(error), "cpu": 0.0, "nodes": 0}  # fmt: skip


def _alike(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether a smaller model fails as the one before: errors must begin alike."""
    if row["verdict"] != other["verdict"]:
        return False
    if row["verdict"] in ("raised", "refused badly"):
        mine, before = str(row["why"]), str(other["why"])
        return mine[-40:] == before[-40:] or mine[:30] == before[:30]
    return True
