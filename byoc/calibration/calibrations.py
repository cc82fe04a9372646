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

from ...analysis.support.files.user_cache import user_cache
from ...analysis.support.warn import warn
from ..backend.catalog import find, unusable
from ..backend.guarded_calls import guarded
from ..codegen.host_target import VARIABLE, flags, model_name
from ..codegen.loading.cuda_device import cuda_device, no_gpu
from ..process import trust
from .calibration import (
    ARCHITECTURE,
    CalibratedMachine,
    Calibration,
    CalibrationRefused,
    is_of_gpu,
)
from .device_rates import rates_of

#: Backends of CPUs that are calibrated, and chosen from by default.
CALIBRATED = ("onednn", "blas", "onnxruntime", "openvino")
#: Backends of NVIDIA's GPUs that are calibrated, and chosen from by default, the preferred first.
GPU_BACKENDS = ("cudnn", "cublaslt")
#: Vectors from the widest, and the feature that says so.
VECTORS = (("avx512", "avx512f"), ("avx2", "avx2"))
SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True)
class ActiveCalibration:
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

    def corrected(self, factors: Mapping[str, float]) -> ActiveCalibration:
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
        command = "opinfo calibrate" + " --target cuda" * is_of_gpu(self.calibration)
        return text if self.own is not False else f"{text}; for this one, run `{command}`"


def this_machine(threads: int = 1) -> CalibratedMachine:
    """This machine, with the installed versions of what is calibrated."""
    return CalibratedMachine(cpu_model(), vectors(), threads, _versions(CALIBRATED))


def this_gpu() -> CalibratedMachine:
    """The GPU of this machine, which there must be; its architecture takes the vectors' place."""
    device = cuda_device()
    arch = f"{ARCHITECTURE}{str(device.compute_version).replace('.', '')}"
    return CalibratedMachine(str(device.device_name), arch, 1, _versions(GPU_BACKENDS))


def _versions(backends: Sequence[str]) -> dict[str, str]:
    """The versions of opinfo, of TVM, and of the backends that are installed."""
    names = [n for n in backends if known(n) and unusable(find(n)) is None]
    versions = {n: guarded(find(n), []).version() for n in names}
    return versions | {"opinfo": version("opinfo"), "tvm": str(tvm.__version__)}


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


def named(calibration: Calibration) -> ActiveCalibration:
    """The calibration that a caller names. Raises `CalibrationRefused` for one of a GPU."""
    machine = calibration.machine
    if is_of_gpu(calibration):
        raise CalibrationRefused(f"the calibration is of a GPU, {machine}; expected one of a CPU")
    same = (machine.cpu, machine.vectors) == (cpu_model(), vectors())
    return ActiveCalibration(calibration, None if same else False)


def in_force(threads: int = 1) -> ActiveCalibration:
    """The calibration of this machine if it is stored, else the nearest shipped one.

    That one is estimated for the number of threads.
    """
    machine = this_machine(threads)
    stored = _stored(machine)
    if stored is not None:
        return ActiveCalibration(stored, True)
    return ActiveCalibration(nearest(shipped(), machine).for_threads(threads), False)


def gpu_in_force(named: Calibration | None = None) -> ActiveCalibration | None:
    """The calibration of a GPU: the one that a caller names, else that of this machine.

    None if none is stored, or no GPU is visible. Raises `CalibrationRefused` for one of a CPU.
    """
    machine = None if no_gpu() else this_gpu()
    if named is not None:
        rates_of(named)
        gpus = [(m.cpu, m.vectors) for m in (named.machine, machine) if m is not None]
        return ActiveCalibration(named, None if len(set(gpus)) == 1 else False)
    stored = None if machine is None else _stored(machine)
    return None if stored is None else ActiveCalibration(stored, True)


def _stored(machine: CalibratedMachine) -> Calibration | None:
    """The stored calibration of a machine; one that cannot be used is ignored with a warning."""
    path = stored_path(machine)
    try:
        with trust.folder(path.parent):
            stored = _loaded(path, path.stat().st_mtime_ns)
        if stored.machine == machine:
            if is_of_gpu(stored):
                rates_of(stored)
            return stored
        warn(f"the stored calibration is ignored: {path}: machine: expected {machine} with "
             f"{machine.threads} threads and its versions, got {stored.machine}")  # fmt: skip
    except FileNotFoundError:
        pass
    except (CalibrationRefused, trust.Untrusted) as error:
        warn(f"the stored calibration is ignored: {error}")
    except OSError as error:
        warn(f"the stored calibration is ignored: {path.parent}: {error.strerror or error}")
    return None


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
