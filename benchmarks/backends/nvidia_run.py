"""Run, compare and time what `benchmarks.nvidia --build DIR` made: python nvidia_run.py DIR

Needs TVM's runtime (not its compiler), numpy, torch and the GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi
from tvm.runtime.vm import VirtualMachine
from tvm_ffi.libinfo import load_lib_ctypes

if tvm.base._RUNTIME_ONLY:  # with its compiler, TVM does the same itself
    load_lib_ctypes("tvm", "tvm_runtime_cuda", "RTLD_LOCAL",
                    extra_lib_paths=tvm.libinfo.package_lib_paths())  # fmt: skip

    @tvm_ffi.register_global_func("tvm_callback_cuda_compile", override=True)
    def _compile(code: str) -> Any:
        arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
        return tvm.support.nvcc.compile_cuda(code, target_format="cubin", arch=arch)


Array = np.ndarray[Any, Any]
#: The largest difference to accept, relative to a result's largest value.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
MODEL_TOLERANCE = 1e-4
TORCH = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def on_gpu(array: Array, dtype: str) -> Any:
    """Copy an array to the GPU as a torch tensor; bfloat16 is stored as its bits."""
    tensor = torch.from_numpy(array).cuda()
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def difference(actual: Any, expected: Array) -> float:
    result, reference = actual.double().cpu().numpy(), expected.astype("float64")
    if result.shape != reference.shape or not np.isfinite(result).all():
        return float("nan")
    return float(np.abs(result - reference).max() / max(np.abs(reference).max(), 1e-30))


def load_arrays(folder: Path, job: dict[str, Any]) -> tuple[list[Any], list[Array]]:
    with np.load(folder / f"{job.get('data', job['file'])}.npz") as archive:
        xs = [on_gpu(archive[f"x{k}"], t) for k, t in enumerate(job["inputs"])]
        return xs, [archive[f"y{k}"] for k in range(len(archive.files) - len(xs))]


def machine(folder: Path, file: str) -> Callable[..., list[Any]]:
    """Return the `main` of a library as a function of torch tensors, on torch's stream."""
    vm = VirtualMachine(tvm.runtime.load_module(str(folder / f"{file}.so")), tvm.cuda(0))

    def call(*values: Any) -> list[Any]:
        return _flat(vm["main"](*map(tvm.runtime.from_dlpack, values)))

    return call


def _flat(result: Any) -> list[Any]:
    if isinstance(result, tvm.runtime.Tensor):
        return [torch.from_dlpack(result)]
    return [t for part in result for t in _flat(part)]


def cases(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    xs, expected = load_arrays(folder, job)
    results = machine(folder, job["file"])(*xs)
    torch.cuda.synchronize()
    wrong: list[str] = []
    worst: dict[str, float] = {}
    for (name, dtype), a, b in zip(job["results"], results, expected, strict=True):
        d = difference(a, b)
        worst[dtype] = max(worst.get(dtype, 0.0), d) if d == d else d
        if not d <= TOLERANCE[dtype]:
            wrong.append(f"{name}: {d:.1e}")
    return {"of": len(expected), "wrong": wrong, "apart": worst, "summary": job["summary"]}


def model(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    xs, expected = load_arrays(folder, job)
    calls = [machine(folder, job[k]) for k in ("file", "plain")]
    results = calls[0](*xs)
    d = max(difference(a, b) for a, b in zip(results, expected, strict=True))
    ours, plain = timed([lambda: calls[0](*xs), lambda: calls[1](*xs)], each=3)
    wrong = [] if d <= MODEL_TOLERANCE else [f"{d:.1e}"]
    return {"apart": d, "wrong": wrong, "ms": ours, "tvm_ms": plain, "summary": job["summary"]}


def speed(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    dtype = TORCH[job["dtype"]]
    torch.manual_seed(0)
    xs = [torch.randn(s, device="cuda").div(s[-1] ** 0.5).to(dtype) for s in job["shapes"]]
    out = torch.empty(job["result"], device="cuda", dtype=dtype)
    function = tvm.runtime.load_module(str(folder / f"{job['file']}.so")).get_function(
        job["symbol"], query_imports=True)  # fmt: skip
    reference = REFERENCES[job["graph"]]
    expected = reference(*[x.double() for x in xs])
    values = [*(xs[k] for k in job["order"]), out]
    function(*values)
    d = difference(out, expected.cpu().numpy())
    wrong = [] if d <= TOLERANCE[job["dtype"]] else [f"{d:.1e}"]
    row: dict[str, Any] = {"apart": d, "wrong": wrong}
    prepare: Callable[..., Any] = PREPARED.get(job["graph"], unchanged)
    operands = prepare(*xs)
    run = TIMED.get(job["graph"], reference)
    ours, theirs = timed([lambda: function(*values), lambda: run(*operands)])
    row |= {"ms": ours, "torch_ms": theirs, "ratio": ours / theirs}
    if (folder / f"{job['file']}_plain.so").exists():
        plain = machine(folder, f"{job['file']}_plain")
        (row["tvm_ms"],) = timed([lambda: plain(*xs)], each=3, rounds=3)
    try:
        replays = [replay(lambda: function(*values)), replay(lambda: run(*operands))]
        kernels, others = (t / REPLAYED for t in timed(replays, each=5))
    except Exception as error:  # reported; the times of single calls are kept
        return {**row, "wrong": [*row["wrong"], f"as a CUDA graph: {error}"[:300]]}
    return {**row, "graph_ms": kernels, "torch_graph_ms": others, "graph_ratio": kernels / others}


#: Calls in a CUDA graph.
REPLAYED = 20


def replay(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the launch of a CUDA graph of `REPLAYED` calls: without the host's time for each."""
    graph = torch.cuda.CUDAGraph()
    with tvm_ffi.use_torch_stream(torch.cuda.graph(graph)):
        for _ in range(REPLAYED):
            call()
    return graph.replay  # type: ignore[no-any-return]


def dense(x: Any, weight: Any, bias: Any) -> Any:
    return torch.relu(torch.nn.functional.linear(x, weight, bias))


def first(x: Any, weight: Any, bias: Any) -> Any:
    """Convolution, bias and relu in NCHW, with weights in OIHW."""
    pad, groups = weight.shape[2] // 2, x.shape[1] // weight.shape[1]
    return torch.relu(
        torch.nn.functional.conv2d(x, weight, bias.reshape(-1), padding=pad, groups=groups)
    )


def stem(x: Any, weight: Any, bias: Any) -> Any:
    pad = weight.shape[2] // 2
    return torch.relu(torch.nn.functional.conv2d(x, weight, bias, stride=2, padding=pad))


def patches(x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.conv2d(x, weight, bias, stride=weight.shape[2])


def residual(x: Any, weight: Any, bias: Any, added: Any) -> Any:
    pad = weight.shape[2] // 2
    y = torch.nn.functional.conv2d(x, weight, bias, padding=pad)
    return torch.relu_(y.add_(added))


def silu(x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.silu(torch.nn.functional.conv2d(x, weight, bias))


def hard_swish(x: Any, weight: Any, bias: Any) -> Any:
    return torch.nn.functional.hardswish(torch.nn.functional.conv2d(x, weight, bias))


def transposed(x: Any, weight: Any, bias: Any) -> Any:
    return torch.relu(torch.nn.functional.conv_transpose2d(
        x, weight, bias.reshape(-1), stride=2, padding=1))  # fmt: skip


def of_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NHWC tensors and its result in NHWC."""
    return lambda *xs: function(*channels_last(*xs)).permute(0, 2, 3, 1)


def unchanged(*xs: Any) -> Any:
    return xs


def channels_last(*xs: Any) -> Any:
    """Return views of NHWC tensors with the axes in torch's order."""
    return tuple(x.permute(0, 3, 1, 2) if x.ndim == 4 else x for x in xs)


LAST: dict[str, Callable[..., Any]] = {
    "conv": first, "depthwise": first, "grouped": first, "stem": stem,
    "residual": residual, "silu": silu, "hard swish": hard_swish, "patches": patches,
}  # fmt: skip
REFERENCES: dict[str, Callable[..., Any]] = {
    "dense": dense, "conv NCHW": first, "batch": torch.matmul, "transposed": transposed,
    **{name: of_last(function) for name, function in LAST.items()},
}  # fmt: skip
PREPARED: dict[str, Callable[..., Any]] = dict.fromkeys(LAST, channels_last)
TIMED = LAST


def timed(calls: Sequence[Callable[[], Any]], each: int = 50, rounds: int = 9) -> list[float]:
    """Return median milliseconds of a call, in turns, from events around ``each`` calls."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, kept in zip(calls, times, strict=True):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            begin.record()
            for _ in range(each):
                call()
            end.record()
            end.synchronize()
            kept.append(begin.elapsed_time(end) / each)
    return [statistics.median(t[1:]) for t in times]


def machine_info() -> dict[str, Any]:
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "tvm": tvm.__version__}  # fmt: skip


def run_job(folder: Path, job: dict[str, Any] | None) -> dict[str, Any]:
    """Run a job in this process; without a job, describe the machine."""
    if job is None:
        return machine_info()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    stream = torch.cuda.current_stream()
    try:
        with tvm_ffi.use_torch_stream(torch.cuda.stream(stream)):
            return {"cases": cases, "model": model, "speed": speed}[job["kind"]](folder, job)
    except Exception as error:  # reported; the other jobs continue
        return {"wrong": [f"{type(error).__name__}: {error}"[:600]]}


def run_in_new_process(folder: Path, name: str) -> dict[str, Any]:
    """Run a job in its own process, so that a crash does not end the others."""
    words = [sys.executable, __file__, str(folder), "--job", name]
    process = subprocess.run(words, capture_output=True, text=True)
    if process.returncode != 0:
        last = (process.stderr.strip().splitlines() or [""])[-1]
        return {"wrong": [f"its process ended with {process.returncode}: {last}"]}
    return dict(json.loads(process.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--job", help="only this one, in this process")
    options = parser.parse_args()
    jobs = json.loads((options.folder / "jobs.json").read_text())
    if options.job:
        print(json.dumps(run_job(options.folder, jobs.get(options.job))))
        return 0
    report: dict[str, Any] = {}
    for name in ("machine", *jobs):
        report[name] = run_in_new_process(options.folder, name)
        print(f"{name}: {report[name]}", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(report, indent=1))
    return int(any(t.get("wrong") for t in report.values()))


if __name__ == "__main__":
    sys.exit(main())
