"""The cost of regions by a calibration: a pure function of samples and workloads.

roofline(w)  = call + max(work / peak, moved / bandwidth)      of a backend, from its best samples
alone(w)     = roofline(w) · factor, interpolated between the nearest samples of the kind
region       = call + Σ (alone(w) - call), less the traffic that fusion saves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import exp, log
from statistics import median

from ...layout.model.buffer_bytes import size_of
from ..backend.region import Call, Region, Tensor
from .calibration import Calibration, Sample, is_of_gpu
from .workload import (
    ATTENTION,
    ELEMENTWISE,
    REFERENCE,
    TILED,
    VIEW,
    WEIGHTS,
    WEIGHTS_FIRST,
    WINOGRAD,
    Workload,
    attention_of,
    implemented,
    straightforward,
    workload,
)

#: The samples between which a cost is interpolated.
NEAREST = 4
#: Families whose samples give the bytes that move in a microsecond.
STREAMS = ("elementwise", "copy", "transpose")
#: Streams of fewer bytes stay in a cache, so they say nothing about memory.
LARGE = 1 << 20
#: The multiplications of a library's reference code in a microsecond.
REFERENCE_RATE = 300.0
#: The time of a convolution by Winograd as a part of a direct one's, where a race chose it: it was
#: 0.4 to 0.8 on two CPUs.
WINOGRAD_PART = 0.5
#: The rate of a product by tiles as a part of the best one of products and pointwise convolutions:
#: it was 0.9 to 0.94 of the CPU's peak with AVX2.
TILED_PART = 0.94
#: The time of a product whose weights are its first operand as a part of that by weights that come
#: second, which libraries pack once: it was 1.06 to 1.36 in ONNX Runtime and OpenVINO. A GPU reads
#: either.
FIRST_PART = 1.2
TVM = "tvm"
#: The sources of costs.
MEASURED, CALIBRATED, ESTIMATED = "measured", "calibrated", "estimated"


@dataclass(frozen=True)
class Estimate:
    """An expected cost.

    Attributes:
        microseconds: The cost.
        source: ``measured``, ``calibrated`` (from samples of the same kind) or ``estimated``.
    """

    microseconds: float
    source: str

    def __str__(self) -> str:
        return f"{self.microseconds:.1f} us ({self.source})"


@dataclass(frozen=True)
class Roofline:
    """The best that a backend does: microseconds of a call, and rates in a microsecond."""

    call: float
    peak: float
    bandwidth: float

    def time(self, load: Workload) -> float:
        """The time of a workload, in microseconds."""
        return self.call + max(load.work / self.peak, load.moved / self.bandwidth)


@dataclass(frozen=True, eq=False)
class CostModel:
    """Costs by a calibration."""

    calibration: Calibration

    @cached_property
    def backends(self) -> dict[str, _BackendModel]:
        by: dict[str, list[Sample]] = {}
        for sample in self.calibration.samples:
            by.setdefault(sample.backend, []).append(sample)
        first = 1.0 if is_of_gpu(self.calibration) else FIRST_PART
        return {name: _BackendModel(samples, first) for name, samples in by.items()}

    def knows(self, backend: str) -> bool:
        """Whether the calibration has samples of a backend."""
        return backend in self.backends

    def cost(
        self, backend: str, region: Region, coarse: bool = False, kernel: str | None = None
    ) -> Estimate | None:
        """The cost of a region on a backend; None if there are no samples of it.

        Args:
            backend: The backend, or ``tvm``.
            region: The region, without symbolic extents.
            coarse: The region runs operator by operator: elementwise operators are fused only into
                convolutions and products.
            kernel: The library's implementation, if known: those of `workload.KERNELS` are kinds of
                their own, and attention is one workload.
        """
        model = self.backends.get(backend)
        if model is None:
            return None
        if kernel is not None and kernel.startswith(ATTENTION):
            cost, known = model.inside(attention_of(region))
            return Estimate(model.roofline.call + cost, CALIBRATED if known else ESTIMATED)
        total, calibrated = model.roofline.call, True
        for k, call in enumerate(region.calls):
            load = implemented(workload(call), kernel) if k == 0 else workload(call)
            cost, known = model.inside(load)
            if load.family in ELEMENTWISE and _fuses(region, call, coarse):
                saved = 2 * size_of(call.result.shape, call.result.dtype)
                cost = max(0.0, cost - saved / model.roofline.bandwidth)
            total += cost
            calibrated = calibrated and known
        return Estimate(total, CALIBRATED if calibrated else ESTIMATED)

    def other(self, backend: str, load: Workload) -> float:
        """The microseconds of a workload by a backend's roofline; 0 without samples of it."""
        model = self.backends.get(backend)
        return 0.0 if model is None else model.roofline.call + model.inside(load)[0]

    def conversion(self, moved: float) -> float:
        """The microseconds of a layout conversion that reads and writes ``moved`` bytes."""
        model = self.backends.get(TVM)
        if model is None:
            return 1.0 + moved / 1e4
        elements = max(1, int(moved / 8))
        cost, _ = model.inside(Workload("transpose", (elements, 64), elements, int(moved)))
        return model.roofline.call + cost


class _BackendModel:
    """The samples of one backend.

    ``first`` is the time of a product whose weights come first, relative to the same product by
    weights that come second.
    """

    def __init__(self, samples: Sequence[Sample], first: float) -> None:
        self.first = first
        self.roofline = _roofline(samples)
        self.by_kind: dict[str, list[tuple[tuple[float, ...], float]]] = {}
        self.by_family: dict[str, list[float]] = {}
        for sample in samples:
            load = sample.workload
            factor = log(sample.microseconds / self.roofline.time(load))
            self.by_kind.setdefault(load.kind, []).append((_logarithms(load), factor))
            self.by_family.setdefault(load.family, []).append(factor)
        rates = [s.workload.work / s.microseconds for s in samples if _is_product(s.workload.kind)]
        self.product_rate = max(rates, default=self.roofline.peak)
        self.inside = lru_cache(maxsize=65536)(self._inside)

    def _inside(self, load: Workload) -> tuple[float, bool]:
        """The time of a workload inside a region, without the call; and whether its kind is known.

        A view takes no time. A 1-d convolution without samples is a 2-d one of a row. Another kind
        without samples takes the median factor of its family, else of elementwise operators and
        copies; reference code has a rate, as tiles have where they are faster than what was
        sampled, attention that of its products.
        """
        if load.kind == VIEW:
            return 0.0, True
        nearest = self._nearest(load)
        row = replace(load, kind=load.kind.replace("conv1d", "conv2d", 1))
        if not nearest and load.family.startswith("conv1d") and row.kind in self.by_kind:
            return self.inside(row)
        if not nearest and load.family == REFERENCE:
            return load.work / REFERENCE_RATE, False
        if not nearest and load.family == WINOGRAD:
            direct, _ = self.inside(replace(load, kind=straightforward(load.kind)))
            return WINOGRAD_PART * direct, False
        if not nearest and load.family == TILED:
            straight, known = self.inside(replace(load, kind=straightforward(load.kind)))
            least = load.moved / self.roofline.bandwidth
            tiles = max(load.work / (TILED_PART * self.product_rate), least)
            return (tiles, False) if tiles < straight else (straight, known)
        if not nearest and load.kind.startswith(WEIGHTS_FIRST):
            kind = load.kind.replace(WEIGHTS_FIRST, WEIGHTS, 1)
            cost, known = self.inside(replace(load, kind=kind))
            return self.first * cost, known
        if not nearest and load.family == ATTENTION:
            return self.inside(replace(load, kind="matmul batched"))[0], False
        if nearest:
            factor = sum(w * f for w, f in nearest) / sum(w for w, _ in nearest)
        else:
            families = [load.family] if load.family in self.by_family else STREAMS
            factors = [f for name in families for f in self.by_family.get(name, ())]
            factor = median(factors or [f for fs in self.by_family.values() for f in fs])
        time = self.roofline.time(load) * exp(factor)
        return max(0.0, time - self.roofline.call), bool(nearest)

    def _nearest(self, load: Workload) -> list[tuple[float, float]]:
        """The weights and logarithmic factors of the nearest samples of the kind."""
        place = _logarithms(load)
        factors = [(_distance(place, at), factor) for at, factor in self.by_kind.get(load.kind, ())
                 if len(at) == len(place)]  # fmt: skip
        return [(1 / (d + 1e-3), f) for d, f in sorted(factors)[:NEAREST]]


def _is_product(kind: str) -> bool:
    """Whether it is a product of float32 matrices, or a convolution that is one."""
    words = kind.split()
    if words[0] == "conv2d":
        return words[2:] == ["dense", "pointwise"]
    return words[0] == "matmul" and not words[-1][-1].isdigit()  # other types are the last word


def _roofline(samples: Sequence[Sample]) -> Roofline:
    call = min(s.microseconds for s in samples)
    plain = [s for s in samples if s.workload.family != WINOGRAD] or samples
    peak = max(s.workload.work / s.microseconds for s in plain)
    streams = [s for s in samples if s.workload.family in STREAMS and s.workload.moved >= LARGE]
    moving = streams or samples
    return Roofline(call, peak, max(max(s.workload.moved, 1) / s.microseconds for s in moving))


def _fuses(region: Region, call: Call, coarse: bool) -> bool:
    """Whether an operator reads a value that is computed before it in its region."""
    for operand in call.operands:
        if isinstance(operand, Tensor) and operand.source == "call":
            if not coarse:
                return True
            family = workload(region.calls[operand.index]).family
            if family.startswith(("conv", "matmul")):
                return True
    return False


def _logarithms(load: Workload) -> tuple[float, ...]:
    return tuple(log(s) for s in load.sizes)


def _distance(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
