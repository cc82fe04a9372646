"""Which calibration serves this machine: a stored one, else the nearest that opinfo ships."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import tvm

from ...analysis.support.user_cache import user_cache
from ...analysis.support.warn import warn
from ..backend.catalog import find, unusable
from ..backend.guarded_calls import guarded
from ..codegen.host import VARIABLE, flags, model_name
from ..process import trust
from .calibration import CalibratedMachine, Calibration, CalibrationRefused

#: Backends of CPUs that are calibrated, and chosen from by default.
CALIBRATED = ("onednn", "blas", "onnxruntime", "openvino")
#: Vectors from the widest, and the feature that says so.
VECTORS = (("avx512", "avx512f"), ("avx2", "avx2"))
SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True)
class InForce:
    """The calibration that costs come from.

    Attributes:
        calibration: The calibration.
        own: Whether it was measured on this machine with these versions; None if the caller named
            one of this CPU.
        missing: Installed backends that it has no samples of, so they are not chosen.
        factors: By backend, how much longer the whole model took than the calibration says.
    """

    calibration: Calibration
    own: bool | None
    missing: tuple[str, ...] = ()
    factors: Mapping[str, float] = field(default_factory=dict)

    @property
    def backends(self) -> frozenset[str]:
        """The backends with samples."""
        return frozenset(s.backend for s in self.calibration.samples)

    def corrected(self, factors: Mapping[str, float]) -> InForce:
        """With the times of some backends multiplied by a factor."""
        return replace(self, calibration=self.calibration.scaled(factors), factors=factors)

    def __str__(self) -> str:
        which = {None: "", True: "this machine, ", False: "another machine, "}[self.own]
        text = f"costs as calibrated on {which}{self.calibration.machine}"
        if self.missing:
            text += f", without {', '.join(self.missing)}"
        if self.factors:
            times = ", ".join(f"{name} {f:.2f}x" for name, f in sorted(self.factors.items()))
            text += f", corrected by the times of this model: {times}"
        return text if self.own is not False else f"{text}; for this one, run `opinfo calibrate`"


def this_machine(threads: int = 1) -> CalibratedMachine:
    """This machine, with the installed versions of what is calibrated."""
    names = [n for n in CALIBRATED if known(n) and unusable(find(n)) is None]
    versions = {n: guarded(find(n), []).version() for n in names}
    versions |= {"opinfo": version("opinfo"), "tvm": str(tvm.__version__)}
    return CalibratedMachine(cpu_model(), vectors(), threads, versions)


def known(name: str) -> bool:
    """Whether opinfo or a package has a backend of this name."""
    try:
        find(name)
    except ValueError:
        return False
    return True


def vectors() -> str:
    """The widest vectors that code may use."""
    present = flags()
    return next((name for name, flag in VECTORS if flag in present), "")


def cpu_model() -> str:
    """The CPU's model name, if the system reports it; with `VARIABLE`, the CPU that it names."""
    return os.environ.get(VARIABLE) or model_name()


def stored_path(machine: CalibratedMachine) -> Path:
    """The file that keeps the calibration of a machine."""
    parts = [machine.cpu, machine.vectors, str(machine.threads),
             *(f"{n}={v}" for n, v in sorted(machine.versions.items()))]  # fmt: skip
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return user_cache("calibration") / f"{name}.json"


def store(calibration: Calibration) -> Path:
    """Keep a calibration for later processes; returns its file. Raises ``OSError``."""
    path = stored_path(calibration.machine)
    with trust.folder(path.parent, create=True):
        calibration.save(path)
    return path


def named(calibration: Calibration) -> InForce:
    """The calibration that a caller names."""
    machine = calibration.machine
    same = (machine.cpu, machine.vectors) == (cpu_model(), vectors())
    return InForce(calibration, None if same else False)


def in_force(threads: int = 1) -> InForce:
    """The calibration of this machine if it is stored, else the nearest shipped one."""
    machine = this_machine(threads)
    path = stored_path(machine)
    try:
        with trust.folder(path.parent):
            stored = _loaded(path, path.stat().st_mtime_ns)
        if stored.machine == machine:
            return InForce(stored, True)
        warn(f"the stored calibration is ignored: {path}: machine: expected {machine} with "
             f"{machine.threads} threads and its versions, got {stored.machine}")  # fmt: skip
    except FileNotFoundError:
        pass
    except (OSError, CalibrationRefused) as error:
        warn(f"the stored calibration is ignored: {error}")
    return InForce(nearest(shipped(), machine), False)


def shipped() -> tuple[Calibration, ...]:
    """The calibrations that opinfo ships."""
    return tuple(_loaded(path, 0) for path in sorted(SHIPPED.glob("*.json")))


def nearest(calibrations: Sequence[Calibration], machine: CalibratedMachine) -> Calibration:
    """The calibration with the same vectors, else the next narrower ones, then of most threads.

    A CPU without known vectors is nearest to the narrowest.
    """
    order = [name for name, _ in VECTORS]

    def place(vectors_: str) -> int:
        return order.index(vectors_) if vectors_ in order else len(order)

    def distance(calibration: Calibration) -> tuple[int, int]:
        apart = place(calibration.machine.vectors) - place(machine.vectors)
        return (apart if apart >= 0 else 10 - apart,
                abs(calibration.machine.threads - machine.threads))  # fmt: skip

    return min(calibrations, key=distance)


@lru_cache(maxsize=8)
def _loaded(path: Path, _changed: int) -> Calibration:
    return Calibration.load(path)
