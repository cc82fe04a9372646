"""What a CUDA graph loses between kernels: python -m benchmarks.gpu.graph_gaps

Chains of a kernel of 128 x 768 halves, each of which reads what the one before wrote, as one graph:
microseconds for each kernel, medians of 30 launches. **pdl** are kernels that may start before the
previous one is complete, and wait for it before they read (programmatic dependent launch); **pdl,
early** also let the next one start when they do. **clear** has a node between each two kernels
that clears 32 bytes, **clear by kernel** a kernel that does it. **around** are launches of such a
graph with a kernel before and one after it, less those without.
"""

from __future__ import annotations

import ctypes
import importlib
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

driver: Any = importlib.import_module("cuda.bindings.driver")
nvrtc: Any = importlib.import_module("cuda.bindings.nvrtc")

COUNT, LAUNCHES = 100, 30
ELEMENTS = 128 * 768
BLOCKS, THREADS = ELEMENTS // 8 // 128, 128
SOURCE = b"""
struct __align__(16) Eight { unsigned x[4]; };
__device__ void add(const Eight* from, Eight* to) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  Eight v = from[i];
  for (int k = 0; k < 4; ++k) v.x[k] += 1;
  to[i] = v;
}
extern "C" __global__ void plain(const Eight* from, Eight* to) { add(from, to); }
extern "C" __global__ void waits(const Eight* from, Eight* to) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  add(from, to);
}
extern "C" __global__ void early(const Eight* from, Eight* to) {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  add(from, to);
}
extern "C" __global__ void clear(unsigned* to) { to[threadIdx.x] = 0; }
"""


def done(result: Any) -> Any:
    """The values that a call of CUDA returns; raises ``RuntimeError`` if it fails."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(str(status))
    return values[0] if len(values) == 1 else values


class Device:
    """The kernels, two tensors and eight numbers on the first device."""

    def __init__(self) -> None:
        done(driver.cuInit(0))
        device = done(driver.cuDeviceGet(0))
        done(driver.cuCtxSetCurrent(done(driver.cuDevicePrimaryCtxRetain(device))))
        self.stream = done(driver.cuStreamCreate(1))
        major, minor = (done(driver.cuDeviceGetAttribute(getattr(
            driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{x}"), device))
            for x in ("MAJOR", "MINOR"))  # fmt: skip
        image = _compiled(f"--gpu-architecture=sm_{major}{minor}".encode())
        self.module = done(driver.cuModuleLoadData(image))
        self.tensors = [done(driver.cuMemAlloc(2 * ELEMENTS)) for _ in range(2)]
        self.numbers = done(driver.cuMemAlloc(32))

    def launch(self, name: str, k: int, programmatic: bool = False) -> None:
        function = done(driver.cuModuleGetFunction(self.module, name.encode()))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.blockDimX = (1, 8) if name == "clear" else (BLOCKS, THREADS)
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
        config.hStream = self.stream
        if programmatic:
            how = driver.CUlaunchAttribute()
            how.id = (
                driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            )
            how.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [how], 1
        given = (
            [self.numbers] if name == "clear" else [self.tensors[k % 2], self.tensors[1 - k % 2]]
        )
        arguments = tuple(int(a) for a in given), tuple(ctypes.c_void_p for _ in given)
        done(driver.cuLaunchKernelEx(config, function, arguments, 0))

    def clear(self) -> None:
        done(driver.cuMemsetD32Async(self.numbers, 0, 8, self.stream))

    @contextmanager
    def captured(self) -> Iterator[list[Any]]:
        """A context whose launches become a graph, which is in the list at the end."""
        out: list[Any] = []
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        done(driver.cuStreamBeginCapture(self.stream, mode))
        yield out
        graph = done(driver.cuStreamEndCapture(self.stream))
        out.append(done(driver.cuGraphInstantiate(graph, 0)))

    def seconds(self, run: Callable[[], None]) -> float:
        """Seconds of a run, between events; a median of several in a row."""
        times: list[float] = []
        first, last = (done(driver.cuEventCreate(0)) for _ in range(2))
        for _ in range(LAUNCHES):
            done(driver.cuEventRecord(first, self.stream))
            run()
            done(driver.cuEventRecord(last, self.stream))
            done(driver.cuEventSynchronize(last))
            times.append(done(driver.cuEventElapsedTime(first, last)) / 1e3)
        return float(statistics.median(times))


def _compiled(arch: bytes) -> bytes:
    program = done(nvrtc.nvrtcCreateProgram(SOURCE, b"gaps.cu", 0, [], []))
    done(nvrtc.nvrtcCompileProgram(program, 1, [arch]))
    image: bytes = b" " * done(nvrtc.nvrtcGetCUBINSize(program))
    done(nvrtc.nvrtcGetCUBIN(program, image))
    return image


def _chain(device: Device, each: Callable[[int], None]) -> float:
    """Microseconds for each kernel of a graph."""
    with device.captured() as graph:
        for k in range(COUNT):
            each(k)

    def launched() -> None:
        done(driver.cuGraphLaunch(graph[0], device.stream))

    launched()
    return device.seconds(launched) / COUNT * 1e6


def _between(device: Device, first: Callable[[], None]) -> Callable[[int], None]:
    def each(k: int) -> None:
        first()
        device.launch("plain", k)

    return each


def _around(device: Device) -> float:
    """Microseconds that a kernel before a graph and one after it cost, ten times in a row."""
    with device.captured() as graph:
        for k in range(10):
            device.launch("plain", k)

    def run(outside: bool) -> None:
        for _ in range(10):
            if outside:
                device.launch("plain", 1)
            done(driver.cuGraphLaunch(graph[0], device.stream))
            if outside:
                device.launch("plain", 0)

    return (device.seconds(lambda: run(True)) - device.seconds(lambda: run(False))) / 10 * 1e6


def main() -> None:
    """Print a line for each chain."""
    device = Device()
    chains: dict[str, Callable[[], float]] = {
        "plain": lambda: _chain(device, lambda k: device.launch("plain", k)),
        "pdl": lambda: _chain(device, lambda k: device.launch("waits", k, True)),
        "pdl, early": lambda: _chain(device, lambda k: device.launch("early", k, True)),
        "pdl after plain": lambda: _chain(
            device, lambda k: device.launch("waits" if k % 2 else "plain", k, bool(k % 2))),
        "clear": lambda: _chain(device, _between(device, device.clear)),
        "clear by kernel": lambda: _chain(
            device, _between(device, lambda: device.launch("clear", 0))),
        "around": lambda: _around(device),
    }  # fmt: skip
    for name, chain in chains.items():
        try:
            print(f"{name:16} {chain():7.2f} us", flush=True)
        except Exception as error:
            print(f"{name:16} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
