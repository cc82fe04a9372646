"""Samples of a machine, as JSON: what kinds of work took, by backend.

{"format": 1, "machine": {"cpu": "…", "vectors": "avx512", "threads": 1, "versions": {…}},
 "samples": [{"backend": "onednn", "kind": "conv2d last dense window", "sizes": [56, 56, …],
              "work": 115605504, "moved": 1753088, "microseconds": 2350.0}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...analysis.support.files.atomic_replace import replacing
from ...analysis.support.files.checked_json import Json, Malformed, parse
from ...analysis.support.files.regular_files import content
from .workload import SIZES, Workload, straightforward

FORMAT = 1
#: Limit on the bytes of a file; those that opinfo ships have less than 100 kB.
MOST = 16 << 20
#: The times of calls that are plausible, in microseconds, and the most work and bytes in one.
SHORTEST, LONGEST, RATE = 1e-3, 1e9, 1e10
#: The largest size, amount of work or number of bytes.
LARGEST = 2**62
#: Whose samples every choice needs: what stays with TVM would cost nothing.
NEEDED = "tvm"
#: The beginning of the name of a GPU's architecture, which is in place of a CPU's vectors.
ARCHITECTURE = "sm_"
#: The part of a call that one thread does while others wait: runtimes ran models of the zoo 1.7 to
#: 1.95 times as fast with two threads as with one.
SERIAL = 0.07


class CalibrationRefused(ValueError):
    """A file is not a calibration; the message says what differs."""


@dataclass(frozen=True)
class CalibratedMachine:
    """The machine that a calibration belongs to.

    Attributes:
        cpu: The CPU's model name.
        vectors: Its widest vectors: ``avx512``, ``avx2`` or ``""``.
        threads: The threads of each call.
        versions: The version of opinfo, of TVM (``tvm``) and of each backend's library.
    """

    cpu: str
    vectors: str
    threads: int
    versions: Mapping[str, str]

    def __str__(self) -> str:
        vectors = f" ({self.vectors})" if self.vectors else ""
        return f"{self.cpu or 'an unknown CPU'}{vectors}"


@dataclass(frozen=True)
class Sample:
    """A measured time.

    Attributes:
        backend: The backend, or ``tvm``.
        workload: What was computed.
        microseconds: The time of a call.
    """

    backend: str
    workload: Workload
    microseconds: float


@dataclass(frozen=True)
class Calibration:
    """What kinds of work take on a machine, by backend.

    Attributes:
        machine: The machine.
        samples: The measured times.
    """

    machine: CalibratedMachine
    samples: tuple[Sample, ...]

    def scaled(self, factors: Mapping[str, float]) -> Calibration:
        """The calibration with the times of some backends multiplied by a factor."""
        samples = (replace(s, microseconds=s.microseconds * factors.get(s.backend, 1.0))
                   for s in self.samples)  # fmt: skip
        return replace(self, samples=tuple(samples))

    def for_threads(self, threads: int) -> Calibration:
        """Estimated times of calls with another number of threads.

        A race corrects the times of some backends by runs with these threads; times of one thread
        for the others would make them seem slow. The shortest call of a backend does not change:
        there is nothing to divide in it.
        """
        if threads == self.machine.threads:
            return self
        faster = _speed(threads) / _speed(self.machine.threads)
        call: dict[str, float] = {}
        for s in self.samples:
            call[s.backend] = min(s.microseconds, call.get(s.backend, s.microseconds))
        samples = (
            replace(s, microseconds=call[s.backend] + (s.microseconds - call[s.backend]) / faster)
            for s in self.samples
        )
        return Calibration(replace(self.machine, threads=threads), tuple(samples))

    def to_json(self) -> dict[str, Any]:
        """The calibration in the form of its file."""
        machine = {**asdict(self.machine), "versions": dict(self.machine.versions)}
        samples = [{"backend": s.backend, **asdict(s.workload), "sizes": list(s.workload.sizes),
                    "microseconds": s.microseconds} for s in self.samples]  # fmt: skip
        return {"format": FORMAT, "machine": machine, "samples": samples}

    @classmethod
    def from_json(cls, data: Any) -> Calibration:
        """The calibration of a parsed file. Raises `CalibrationRefused` for anything else."""
        version = data.get("format") if isinstance(data, dict) else None
        if version != FORMAT:
            raise CalibrationRefused(
                f"expected a calibration of format {FORMAT}, got format {version}"
            )
        try:
            fields = Json(data)
            samples = tuple(map(_sample, fields["samples"].items()))
            if not any(sample.backend == NEEDED for sample in samples):
                raise fields["samples"].malformed(f"expected samples of '{NEEDED}'", "got none")
            return cls(_machine(fields["machine"]), samples)
        except Malformed as error:
            raise CalibrationRefused(f"the calibration is malformed: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON, with a line for each sample."""
        data = self.to_json()
        lines = ",\n  ".join(json.dumps(s) for s in data.pop("samples"))
        head = json.dumps(data, indent=1).removesuffix("\n}")
        with replacing(Path(path)) as part:
            part.write_text(f'{head},\n "samples": [\n  {lines}\n ]\n}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a calibration.

        Raises:
            CalibrationRefused: The file is anything else.
            OSError: It cannot be read.
        """
        try:
            return cls.from_json(parse(content(path, MOST)).value)
        except (Malformed, CalibrationRefused) as error:
            raise CalibrationRefused(f"{path}: {error}") from error


def is_of_gpu(calibration: Calibration) -> bool:
    """Whether a calibration is of a GPU."""
    return calibration.machine.vectors.startswith(ARCHITECTURE)


def _machine(data: Json) -> CalibratedMachine:
    threads = data["threads"]
    if threads.integer() < 1:
        raise threads.malformed("expected at least 1")
    versions = {name: value.text() for name, value in data["versions"].fields().items()}
    return CalibratedMachine(data["cpu"].text(), data["vectors"].text(), threads.integer(),
                             versions)  # fmt: skip


def _sample(data: Json) -> Sample:
    kind = data["kind"].text()
    count = SIZES.get(straightforward(kind).partition(" ")[0])
    if count is None:
        raise data["kind"].malformed(f"expected a kind of {', '.join(SIZES)}")
    sizes = tuple(_integer(size, 1) for size in data["sizes"].items())
    if len(sizes) != count:
        raise data["sizes"].malformed(f"expected {count} sizes for '{kind}'")
    load = Workload(kind, sizes, _integer(data["work"], 1), _integer(data["moved"], 0))
    microseconds = data["microseconds"].number()
    if not microseconds > 0:
        raise data["microseconds"].malformed("expected a positive number")
    if not max(SHORTEST, max(load.work, load.moved) / RATE) <= microseconds <= LONGEST:
        raise data["microseconds"].malformed(
            f"expected {SHORTEST:g} to {LONGEST:g}, and at least 1 for {RATE:g} elements or bytes"
        )
    return Sample(data["backend"].text(), load, float(microseconds))


def _integer(data: Json, least: int) -> int:
    if data.integer() < least:
        raise data.malformed(f"expected at least {least}")
    if data.integer() > LARGEST:
        raise data.malformed(f"expected at most {LARGEST}")
    return data.integer()


def _speed(threads: int) -> float:
    """How many times as fast a call is with so many threads as with one."""
    return 1 / (SERIAL + (1 - SERIAL) / threads)
