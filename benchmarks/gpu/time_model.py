"""Time one model: python -m benchmarks.gpu.time_model DIR NET-bN DTYPE MODE"""

from __future__ import annotations

import copy
import fcntl
import json
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm import relax

from .build_model import network

ROUNDS, CALLS = 9, 20
#: A round's calls of one build take at most this many seconds, if one call does not.
ROUND = 0.05


def main() -> None:
    """Write the row DIR/NAME-DTYPE.time.json."""
    folder, name, dtype, mode = Path(sys.argv[1]), *sys.argv[2:5]
    stem = folder / f"{name}-{dtype}"
    module, inputs = network(name, dtype)
    row: dict[str, Any] = {"name": name, "dtype": dtype, "mode": mode,
                           "device": torch.cuda.get_device_name()}  # fmt: skip
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.no_grad():
        reference = _reference(module, inputs)
        runs: dict[str, Callable[[], Any]] = {}
        if mode != "none":
            _add(runs, row, "torch", lambda: _compiled(module, inputs, mode))
        with _alone(folder):
            for key, suffix in (("ours", ""), ("tvm", ".tvm")):
                if Path(f"{stem}{suffix}.so").exists():
                    _add(runs, row, key, lambda s=suffix: _machine(f"{stem}{s}.so", inputs))
            for key, run in runs.items():
                row[f"{key}_apart"] = _apart(run(), reference)
            row |= _times(runs)
            for key in set(runs) & {"ours", "torch"}:
                row[f"{key}_kernels"] = _kernels(runs[key])
    Path(f"{stem}.time.json").write_text(json.dumps(row, indent=1))
    shown = {k: v for k, v in row.items() if not k.endswith("_kernels")}
    print("ROW", json.dumps(shown), flush=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Other processes of this benchmark prepare, but do not time, meanwhile."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _reference(module: Any, inputs: tuple[Any, ...]) -> Any:
    exact = copy.deepcopy(module).float().cuda()
    values = [x.float() if x.is_floating_point() else x for x in inputs]
    return exact(*(x.cuda() for x in values)).double().cpu()


def _add(runs: dict[str, Any], row: dict[str, Any], key: str, make: Callable[[], Any]) -> None:
    try:
        run = make()
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        runs[key] = run
    except Exception as error:
        row[f"{key}_error"] = f"{type(error).__name__}: {str(error).strip()[-300:]}"


def _machine(path: str, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """The library's `main` on tensors that are on the GPU, and the same stream as torch."""
    machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cuda(0))
    values = [tvm.runtime.from_dlpack(x.cuda()) for x in inputs]
    main = machine["main"]
    return lambda: main(*values)


def _compiled(module: Any, inputs: tuple[Any, ...], mode: str) -> Callable[[], Any]:
    module = copy.deepcopy(module).cuda()
    values = tuple(x.cuda() for x in inputs)
    if values[0].ndim == 4 and values[0].shape[1] == 3:
        module = module.to(memory_format=torch.channels_last)
        values = tuple(x.to(memory_format=torch.channels_last) for x in values)
    function = torch.compile(module, mode=mode)
    return lambda: function(*values)


def _apart(out: Any, reference: Any) -> float:
    """The largest difference to float32, relative to its largest value."""
    while not hasattr(out, "numpy"):
        out = out[0]
    tensor = out if isinstance(out, torch.Tensor) else torch.from_dlpack(out)
    difference = (tensor.double().cpu() - reference).abs().max() / reference.abs().max()
    return float(difference)


def _times(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of a call: medians of rounds of calls in turns, synchronised once a round."""
    sync = torch.cuda.synchronize
    calls = {}
    for key, run in runs.items():
        sync()
        begun = time.perf_counter()
        run()
        sync()
        spent = time.perf_counter() - begun
        calls[key] = max(1, min(CALLS, int(ROUND / spent)))
    times: dict[str, list[float]] = {key: [] for key in runs}
    for _ in range(ROUNDS):
        for key, run in runs.items():
            sync()
            begun = time.perf_counter()
            for _ in range(calls[key]):
                run()
            sync()
            times[key].append((time.perf_counter() - begun) / calls[key] * 1e3)
    return {key: round(statistics.median(t), 4) for key, t in times.items()}


def _kernels(run: Callable[[], Any], calls: int = 3) -> list[tuple[str, float, float]]:
    """The kernels of a call, the longest first: name, number, microseconds altogether."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    number: Counter[str] = Counter()
    total: dict[str, float] = defaultdict(float)
    for event in profiler.events():
        spent = float(event.device_time)
        if str(event.device_type).endswith("CUDA"):
            number[event.name] += 1
            total[event.name] += spent
    longest = sorted(total.items(), key=lambda item: -item[1])
    return [(n[:90], number[n] / calls, round(t / calls, 2)) for n, t in longest]


if __name__ == "__main__":
    main()
