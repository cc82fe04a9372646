"""Time what is left to TVM on a GPU: opinfo's schedules, TVM's own rules, and torch.

    python -m benchmarks.gpu_kernels [--only TEXT …] [--json FILE] [--build] [--set NAME=VALUE …]
    python -m benchmarks.gpu_kernels --page DEVICE --json FILE   # of an earlier run, on any machine

One line a kernel: microseconds of a call with opinfo's schedule, with TVM's rules and in eager
torch, all in CUDA graphs; the share of the device's bandwidth, counting each input and output once,
against a copy of 256 MiB measured in the same run; and the largest error relative to the largest
value of the same function in torch in float32. Kernels are built in parallel. Those of 16 MiB and
more rotate over copies of their inputs, so that these are not in the cache. `--build` builds only,
which needs no GPU. `--set window_kernel.ROWS=1` builds with another constant of the schedules,
and `--alone` leaves TVM's rules and torch out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.gpu.gpu_kernel_cases import KERNELS, Kernel, module
from benchmarks.gpu.gpu_kernels_page import write

MIB = 1 << 20
#: Seconds after which only opinfo's kernels are timed, and after which none is.
BUDGET, LAST = 95, 125
#: Seconds of a call that is timed once, without a graph; and of a first call, which also loads the
#: kernel, that is not repeated.
SLOW, VERY_SLOW = 0.02, 0.3
WAYS = ("opinfo", "tvm")


def jobs(only: Sequence[str]) -> list[tuple[int, str]]:
    """The number and the type of each kernel to run: those whose name contains one of the texts."""
    every = [(k, t) for k, c in enumerate(KERNELS) for t in c.types]
    names = [f"{KERNELS[k].kind} {KERNELS[k].label} {t}" for k, t in every]
    return [job for job, name in zip(every, names, strict=True) if any(x in name for x in only)]


def set_constants(settings: Sequence[str]) -> None:
    """Give constants of modules of the schedules other values: ``module.NAME=3``."""
    for setting in settings:
        name, value = setting.split("=")
        module, constant = name.split(".")
        package = "splits" if module.startswith("split") else "schedules"
        found = import_module(f"opinfo.byoc.backends.nvidia.{package}.{module}")
        if not hasattr(found, constant):
            raise SystemExit(f"{module} has no constant {constant}")
        setattr(found, constant, float(value) if "." in value else int(value))


# ---------------------------------------------------------------------------- building


def build(job: tuple[int, str], folder: str, arch: str, alone: bool = False) -> dict[str, Any]:
    """Build a kernel both ways; returns the path or the error of each way, and the parameters."""
    import tvm

    from opinfo.byoc.backends.nvidia.passes.fast_functions import with_fast_functions
    from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
    from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled
    from opinfo.byoc.backends.nvidia.splits.split_kernels import split_kernels
    from opinfo.byoc.prepare.fuse import fuse
    from opinfo.byoc.prepare.prepare import prepare

    kernel = KERNELS[job[0]]
    out: dict[str, Any] = {"job": list(job)}
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    target = tvm.target.Target({"kind": "cuda", "arch": arch, "thread_warp_size": 32, **limits})
    try:
        mod = fuse_rows(fuse(prepare(module(kernel, job[1]))))
        funcs = [f for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
        if len(funcs) != 1:
            return out | {"error": f"{len(funcs)} PrimFuncs"}
        parts = split_kernels(funcs[0])
        own = [p.func for p in parts] if isinstance(parts, tuple) else funcs
        out["tvm_params"], out["opinfo_params"] = parameters(funcs), parameters(own)
        ways: dict[str, Callable[[], list[Any]]] = {
            "opinfo": lambda: [with_fast_functions(gpu_scheduled(f)) for f in own],
            "tvm": lambda: [by_tvm(funcs[0], target)],
        }
        for way, schedule in list(ways.items())[: 1 if alone else None]:
            path = str(Path(folder) / f"{job[0]}_{job[1]}_{way}.so")
            out[way] = compiled(schedule, target, path)
    except Exception as error:
        out["error"] = f"{type(error).__name__}: {str(error)[:150]}"
    return out


def parameters(funcs: Sequence[Any]) -> list[list[tuple[str, list[int], str]]]:
    """The name, shape and type of the buffers of each PrimFunc."""
    return [[(p.name, [getattr(e, "value", 0) for e in p.ty.shape], str(p.ty.dtype))
             for p in f.params] for f in funcs]  # fmt: skip


def by_tvm(func: Any, target: Any) -> Any:
    """The PrimFunc with TVM's rules only."""
    import tvm
    from tvm.s_tir import dlight as dl

    from opinfo.byoc.backends.nvidia.tvm_schedules import in_order

    rules = (dl.gpu.Matmul(), dl.gpu.GEMV(), dl.gpu.Reduction(), dl.gpu.GeneralReduction(),
             dl.gpu.Fallback())  # fmt: skip
    with target:
        mod = dl.ApplyDefaultSchedule(*rules)(tvm.IRModule({"main": in_order(func)}))
    return mod["main"]


def compiled(schedule: Callable[[], list[Any]], target: Any, path: str) -> str:
    """The path of the library, or the reason why there is none."""
    import tvm

    from opinfo.byoc.backends.nvidia.nvrtc.exact_math import exact_math

    try:
        funcs = schedule()
        for func in funcs:
            if not isinstance(func, tvm.tirx.PrimFunc):
                return f"refused: {func.reason[:300]}"
        named = {f"k{k}": f.with_attr("global_symbol", f"k{k}") for k, f in enumerate(funcs)}
        with exact_math():  # as models are
            tvm.compile(tvm.IRModule(named), target=target).export_library(path)
        return path
    except Exception as error:
        lines = [x for x in str(error).splitlines() if x.strip()] or [""]
        return f"failed: {type(error).__name__}: {lines[0][:150]}"


# ---------------------------------------------------------------------------- timing


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


def line(row: dict[str, Any]) -> str:
    """A line of the table."""
    name = f"{row['name']} {'x'.join(map(str, row['shape']))}"
    cells = [f"{row[way]:10.1f}" if way in row else f"{'-':>10}" for way in (*WAYS, "torch")]
    share = f"{row['share']:6.0%}" if "share" in row else f"{'-':>6}"
    error = f"{row['opinfo_error']:9.1e}" if "opinfo_error" in row else f"{'-':>9}"
    notes = "; ".join(f"{w}: {row[f'{w}_note']}" for w in (*WAYS, "torch") if f"{w}_note" in row)
    return (f"{row['kind']:12}{name:40.40}{row['dtype']:9}{row['bytes'] / MIB:8.1f}"
            f"{''.join(cells)}{share}{error}  {notes}")  # fmt: skip


HEAD = (f"{'kind':12}{'kernel':40}{'type':9}{'MiB':>8}{'opinfo us':>10}{'TVM us':>10}"
        f"{'torch us':>10}{'share':>6}{'error':>9}")  # fmt: skip


def report(folder: Path, first: int) -> int:
    """Time kernels from the one with this number on, and print the table.

    A failure costs its line only. After one that leaves the device unusable, the process ends with
    status 10; a new one can go on after the kernels that are noted in the folder.
    """
    import torch

    builds = json.loads((folder / "builds.json").read_text())
    started, limit = time.perf_counter(), bandwidth(torch)
    print(f"{torch.cuda.get_device_name()}, copy {limit / 1e9:.0f} GB/s\n{HEAD}", flush=True)
    for k, built in list(enumerate(builds))[first:]:
        (folder / "next").write_text(str(k + 1))
        kernel = KERNELS[built["job"][0]]
        label = f"{kernel.kind} {kernel.label} {built['job'][1]}"
        spent = time.perf_counter() - started
        if spent > LAST:
            print(f"{label}: not timed, out of time", flush=True)
            continue
        try:
            if "error" in built:
                raise RuntimeError(built["error"])
            row = measure(torch, built, limit, spent > BUDGET)
            print(line(row), flush=True)
            (folder / f"row_{k}.json").write_text(json.dumps(row))
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{label}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        try:
            torch.cuda.synchronize()
        except Exception:  # the device is lost for this process
            return 10
    print(f"timed in {time.perf_counter() - started:.0f} s", flush=True)
    return 0


def timed_apart(folder: Path) -> list[dict[str, Any]]:
    """The rows of all kernels, timed in a process that is replaced if it loses the device."""
    at = folder / "next"
    at.write_text("0")
    for _ in range(6):
        words = [sys.executable, "-m", "benchmarks.gpu_kernels", "--timed", str(folder),
                 "--first", at.read_text()]  # fmt: skip
        if subprocess.run(words).returncode != 10:
            break
    return [json.loads(p.read_text()) for p in sorted(folder.glob("row_*.json"))]


def main() -> int:
    about = __doc__.splitlines()[0] if __doc__ else None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_kernels", description=about)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of kind, name and type")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE",
                        help="constants of the schedules")  # fmt: skip
    parser.add_argument("--alone", action="store_true", help="opinfo only")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--build", action="store_true", help="only build; needs no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timed", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--page", metavar="DEVICE", help="write the page of the rows in --json")
    options = parser.parse_args()
    if options.page:
        print(f"written: {write(json.loads(Path(options.json).read_text()), options.page)}")
        return 0
    if options.timed:
        return report(options.timed, options.first)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        context, first = get_context("spawn"), (options.set,)
        with ProcessPoolExecutor(options.jobs, context, set_constants, first) as pool:
            work = partial(build, folder=name, arch=options.arch, alone=options.alone)
            builds = list(pool.map(work, jobs(options.only)))
        print(f"built in {time.perf_counter() - started:.0f} s", flush=True)
        if options.build:
            for built in builds:
                print(_built(built), flush=True)
            return 0
        (folder / "builds.json").write_text(json.dumps(builds))
        rows = timed_apart(folder)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


def _built(built: dict[str, Any]) -> str:
    """The line of a kernel that was only built."""
    kernel = KERNELS[built["job"][0]]
    bad = {k: v for k, v in built.items() if k in (*WAYS, "error") and not v.endswith(".so")}
    count = len(built.get("opinfo_params", []))
    return f"{kernel.kind} {kernel.label} {built['job'][1]}: {bad or f'built, kernels: {count}'}"


if __name__ == "__main__":
    raise SystemExit(main())
