"""What a GPU does at best: a launch, the bandwidth of its memory, multiplications by dtype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..backend.flops import moved
from ..backend.region import Call, Region, Tensor
from .calibration import Calibration, CalibrationRefused, is_of_gpu
from .cost_model import STREAMS, TVM
from .workload import workload

#: Bytes of a stream that no cache holds.
LARGE = 1 << 28
#: The beginnings of families of kinds that multiply, and dtypes that tensor cores take.
PRODUCTS, HALVES = ("conv", "matmul"), ("float16", "bfloat16")


@dataclass(frozen=True)
class DeviceRates:
    """What a GPU does at best.

    Attributes:
        launch: Microseconds of a kernel that does nothing.
        bandwidth: Bytes that its memory moves in a microsecond.
        products: Multiplications in a microsecond, by the dtype of the operands.
    """

    launch: float
    bandwidth: float
    products: Mapping[str, float] = field(default_factory=dict)

    def streamed(self, moved: float) -> float:
        """The microseconds of a kernel that reads and writes so many bytes."""
        return self.launch + moved / self.bandwidth

    def moving(self, region: Region) -> float:
        """The microseconds of a kernel that reads and writes what a region does."""
        return self.streamed(moved(region))

    def fused(self, region: Region) -> float:
        """The microseconds of a region as one kernel."""
        halves = next((t.dtype for t in region.inputs if t.dtype in HALVES), None)
        computing = sum(self._multiplying(call, halves) for call in region.calls)
        return self.launch + max(moved(region) / self.bandwidth, computing)

    def _multiplying(self, call: Call, halves: str | None) -> float:
        """The microseconds of an operator's multiplications; 0 without a rate of its dtype.

        Operands of float32 may be casts of ``halves``, the dtype of the region's inputs.
        """
        load = workload(call)
        if not load.family.startswith(PRODUCTS):
            return 0.0
        dtype = next(o.dtype for o in call.operands if isinstance(o, Tensor))
        rate = self.products.get(halves or dtype)
        return 0.0 if rate is None else load.work / rate


def rates_of(calibration: Calibration) -> DeviceRates:
    """The rates of a calibrated GPU.

    Raises:
        CalibrationRefused: It is of a CPU, or has no stream that is large enough.
    """
    if not is_of_gpu(calibration):
        raise CalibrationRefused(f"the calibration is of a CPU, {calibration.machine}; expected "
                                 "one of a GPU: opinfo calibrate --target cuda")  # fmt: skip
    samples = calibration.samples
    launch = min(s.microseconds for s in samples if s.backend == TVM)
    streams = [s.workload.moved / s.microseconds for s in samples
               if s.workload.family in STREAMS and s.workload.moved >= LARGE]  # fmt: skip
    if not streams:
        raise CalibrationRefused(f"the calibration of {calibration.machine} has no stream of "
                                 f"{LARGE >> 20} MiB")  # fmt: skip
    rates: dict[str, float] = {}
    for sample in samples:
        load = sample.workload
        if load.family.startswith(PRODUCTS):
            words = load.kind.split()
            dtype = words[-1] if words[-1] in HALVES else "float32"
            rates[dtype] = max(load.work / sample.microseconds, rates.get(dtype, 0.0))
    return DeviceRates(launch, max(streams), rates)
