"""Times of a stream's requests on all sides; see `benchmarks.gpu.stream`."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm import relax

from ..kernel_profile import profile
from ..time_model import _apart, _times
from .stream_requests import Stream, halves, network, requests, shaped

Run = Callable[[Any], Any]


def timed(folder: Path, name: str, alone: bool = False) -> dict[str, Any]:
    """Return the row of a stream: milliseconds of each request on each side, in two passes.

    Args:
        folder: Where the libraries are.
        name: The stream.
        alone: Whether the library is the only side.
    """
    stream, module = network(name)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    row: dict[str, Any] = {"name": name, "device": torch.cuda.get_device_name(),
                           "torch": torch.__version__}  # fmt: skip
    with torch.no_grad():
        module = module.cuda()
        sides = _sides(folder, name, module, alone)
        for shape in stream.warm:
            _warm(sides, _value(stream, shape), row)
        order = requests(stream)
        values = {shape: _value(stream, shape) for shape in sorted(set(order))}
        free, total = torch.cuda.mem_get_info()
        row["gib_before"] = (total - free) / 2**30
        row["first"] = _passed(sides, values, order)
        row["second"] = _passed(sides, values, order)
        free, total = torch.cuda.mem_get_info()
        row["gib_after"] = (total - free) / 2**30
        row["requests"] = [list(s) for s in order]
        row["apart"] = _all_apart(sides, values, module)
        row["samples"] = [_sample(folder, name, s, sides, values[s]) for s in stream.samples]
    _print(row)
    return row


def _value(stream: Stream, shape: Sequence[int]) -> Any:
    return halves(stream.inputs(shape)).cuda()


def _machine(path: Path) -> Run:
    """The library's `main` over torch's tensors, in place and on the same stream."""
    main = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cuda(0))["main"]
    return lambda x: main(tvm.runtime.from_dlpack(x))


def _sides(folder: Path, name: str, module: Any, alone: bool) -> dict[str, Run]:
    sides: dict[str, Run] = {"ours": _machine(folder / f"{shaped(name, ())}.so")}
    if alone:
        return sides
    for key, mode in (("torch", "default"), ("torch_graphs", "reduce-overhead")):
        torch._dynamo.config.cache_size_limit = 64
        sides[key] = torch.compile(copy.deepcopy(module), dynamic=True, mode=mode)
    return sides


def _warm(sides: dict[str, Run], value: Any, row: dict[str, Any]) -> None:
    for key, run in list(sides.items()):
        begun = time.perf_counter()
        try:
            for _ in range(3):
                run(value)
            torch.cuda.synchronize()
        except Exception as error:
            row[f"{key}_error"] = f"{type(error).__name__}: {str(error).strip()[-300:]}"
            del sides[key]
        row.setdefault(f"{key}_warm_s", []).append(time.perf_counter() - begun)


def _passed(
    sides: Mapping[str, Run], values: Mapping[Any, Any], order: Sequence[Any]
) -> dict[str, list[float]]:
    """Milliseconds of each request, which is sent to the sides in turns."""
    times: dict[str, list[float]] = {key: [] for key in sides}
    for shape in order:
        for key, run in sides.items():
            torch.cuda.synchronize()
            begun = time.perf_counter()
            run(values[shape])
            torch.cuda.synchronize()
            times[key].append(round((time.perf_counter() - begun) * 1e3, 4))
    return times


def _all_apart(
    sides: Mapping[str, Run], values: Mapping[Any, Any], module: Any
) -> dict[str, list[float]]:
    """The largest difference of each shape's output to float32, relative to its largest value."""
    exact = copy.deepcopy(module).float()
    out: dict[str, list[float]] = {key: [] for key in sides}
    for value in values.values():
        wide = value.float() if value.is_floating_point() else value
        reference = exact(wide).double().cpu()
        for key, run in sides.items():
            out[key].append(_apart(run(value), reference))
    return out


def _sample(
    folder: Path, name: str, shape: Sequence[int], sides: Mapping[str, Run], value: Any
) -> dict[str, Any]:
    """One shape in turns: its own static build, the build for all shapes, and torch."""
    runs: dict[str, Callable[[], Any]] = {k: (lambda r=r: r(value)) for k, r in sides.items()}
    path = folder / f"{shaped(name, shape)}.so"
    if path.exists():
        static = _machine(path)
        runs["static"] = lambda: static(value)
    for run in runs.values():
        for _ in range(3):
            run()
    row: dict[str, Any] = {"shape": list(shape), **_times(runs)}
    for key in set(runs) & {"ours", "static"}:
        row[f"{key}_kernels"] = profile(runs[key]).row()["kernels"]
    return row


def _print(row: Mapping[str, Any]) -> None:
    print(row["name"], {k: v for k, v in row.items() if k.endswith(("error", "_s"))})
    for part in ("first", "second"):
        for key, times in row[part].items():
            print(f"  {part} {key}: total {sum(times):.1f} ms, median "
                  f"{statistics.median(times):.3f}, worst {max(times):.1f}, "
                  f"over 20 ms: {sum(t > 20 for t in times)}")  # fmt: skip
    for key, apart in row["apart"].items():
        print(f"  apart {key}: at most {max(apart):.1e}")
    for sample in row["samples"]:
        shown = {k: v for k, v in sample.items() if not k.endswith("_kernels")}
        counts = {k: sum(n for _, n, _ in v) for k, v in sample.items() if k.endswith("_kernels")}
        print("  ", shown, counts)
        for key in ("ours_kernels", "static_kernels"):
            for what, number, spent in sample.get(key, [])[:14]:
                print(f"      {key[:6]} {spent:9.1f} us {number:5.0f} x {what[:70]}")
    print(f"  memory: {row['gib_before']:.2f} GiB before, {row['gib_after']:.2f} after", flush=True)
