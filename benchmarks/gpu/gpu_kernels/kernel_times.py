"""Times of the kernels of `benchmarks.gpu_kernels`, in CUDA graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .gpu_kernel_cases import KERNELS, MIB, Kernel
from .kernel_builds import WAYS

#: Seconds of a call that is timed once, without a graph; and of a first call, which also loads the
#: kernel, that is not repeated.
SLOW, VERY_SLOW = 0.02, 0.3


def bandwidth(torch: Any) -> float:
    """Bytes read and written in a second by a copy of 256 MiB."""
    a = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return float(2 * 256 * MIB) / timed(torch, [partial(b.copy_, a)] * 10, 7)


def captured(torch: Any, calls: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """All calls as one CUDA graph; they are called once before."""
    import tvm_ffi

    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), tvm_ffi.use_torch_stream():
        for call in calls:
            call()
    return graph.replay  # type: ignore[no-any-return]


def timed(torch: Any, calls: Sequence[Callable[[], Any]], rounds: int) -> float:
    """Seconds of a call, the median of rounds."""
    replay = captured(torch, calls)
    replay()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / len(calls))
    return float(statistics.median(times))


def waited(torch: Any, call: Callable[[], Any]) -> float:
    """Seconds of a call until the device is done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def inputs(torch: Any, kernel: Kernel, dtype: str) -> list[Any]:
    types = [t or dtype for t in kernel.dtypes] or [dtype] * len(kernel.shapes)
    return [torch.randint(0, 1000, s, dtype=torch.int64, device="cuda") if t == "int64"
            else torch.randn(s, device="cuda").to(getattr(torch, t))
            for s, t in zip(kernel.shapes, types, strict=True)]  # fmt: skip


class Functions:
    """`torch.nn.functional` and the functions of torch itself under one name."""

    def __init__(self, torch: Any) -> None:
        self.places = (torch.nn.functional, torch)

    def __getattr__(self, name: str) -> Any:
        return next(getattr(p, name) for p in self.places if hasattr(p, name))


def measure(torch: Any, built: dict[str, Any], limit: float, alone: bool) -> dict[str, Any]:
    """The row of a kernel; with ``alone``, of opinfo's schedule only."""
    kernel, dtype = KERNELS[built["job"][0]], built["job"][1]
    functions = Functions(torch)
    values = inputs(torch, kernel, dtype)
    result = kernel.torch(functions, *values)
    exact = kernel.torch(functions, *(v.float() if v.is_floating_point() else v for v in values))
    size = sum(v.numel() * v.element_size() for v in (*values, result))
    size -= _unread(values, result) if kernel.name == "embedding" else 0
    copies = min(8, max(1, -(-160 * MIB // size))) if size >= 16 * MIB else 1
    sets = [values, *([v.clone() for v in values] for _ in range(copies - 1))]
    row: dict[str, Any] = {"kind": kernel.kind, "name": kernel.name, "dtype": dtype,
                           "kernels": len(built["opinfo_params"]),
                           "shape": list(kernel.shapes[0]), "bytes": size}  # fmt: skip
    alone = alone or "tvm" not in built
    calls: dict[str, list[Callable[[], Any]]] = {}
    if not alone:
        calls["torch"] = [partial(kernel.torch, functions, *s) for s in sets]
    for way in (w for w in (WAYS[:1] if alone else WAYS) if w in built):
        if not built[way].endswith(".so"):
            row[f"{way}_note"] = built[way]
        elif each := _checked(torch, built, way, sets, (result, exact), row):
            calls[way] = each
    for way, each in calls.items():
        try:
            seconds = waited(torch, each[0])
            if seconds > SLOW:
                row[way] = seconds * 1e6
                continue
            repeats = max(1, min(20, int(2e-3 / max(seconds, 1e-6))))
            row[way] = timed(torch, [each[k % len(each)] for k in range(repeats)], 7) * 1e6
        except Exception as problem:
            row[f"{way}_note"] = f"{type(problem).__name__}: {str(problem)[:120]}"
    if "opinfo" in row:
        row["share"] = size / (row["opinfo"] * 1e-6) / limit
    return row


def _checked(
    torch: Any,
    built: dict[str, Any],
    way: str,
    sets: Sequence[list[Any]],
    results: tuple[Any, Any],
    row: dict[str, Any],
) -> list[Callable[[], Any]]:
    """Calls to time, none if the first one fails or takes very long; ``row`` gets the error.

    ``results``: torch's, also in float32.
    """
    import tvm

    result, exact = results
    library = tvm.runtime.load_module(built[way])
    steps = [library[f"k{k}"] for k in range(len(built[f"{way}_params"]))]
    out = torch.empty_like(result, memory_format=torch.contiguous_format)
    calls = [called(torch, steps, built[f"{way}_params"], s, out) for s in sets]
    try:
        seconds = waited(torch, calls[0])
        error = (out.double() - exact.double()).abs().max() / exact.double().abs().max()
        row[f"{way}_error"] = float(error)
        if seconds <= VERY_SLOW:
            return calls
        row[way] = seconds * 1e6
    except Exception as problem:
        row[f"{way}_note"] = f"{type(problem).__name__}: {str(problem)[:120]}"
    return []


def called(
    torch: Any, steps: Sequence[Any], params: Sequence[Any], values: Sequence[Any], out: Any
) -> Callable[[], Any]:
    """A call of all steps; the last parameter of the last one is the result."""
    known = {f"x{k}": v for k, v in enumerate(values)} | {params[-1][-1][0]: out}
    for buffers in params:
        for name, shape, dtype in buffers:
            if name not in known:
                known[name] = torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")
    args = [[known[name] for name, _, _ in buffers] for buffers in params]

    def call() -> None:
        for step, given in zip(steps, args, strict=True):
            step(*given)

    return call


def _unread(values: list[Any], result: Any) -> int:
    """Bytes of a table of which only the rows of the result are read."""
    table = values[1]
    return int(table.numel() * table.element_size() - result.numel() * result.element_size())
