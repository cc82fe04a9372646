"""Time one model: python -m benchmarks.gpu.time_model DIR NET-bN DTYPE MODE[,MODE...]"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm import relax

from .architectures import MODES
from .build_model import network
from .kernel_profile import profile
from .torch_builds import alone, candidates_one_at_a_time, compiled, reference_of

ROUNDS, CALLS = 9, 20
#: A round's calls of one build take at most this many seconds, if one call does not.
ROUND = 0.05
#: Seconds for which builds are called in turns before they are timed: an idle device is slower.
WARM = 0.5

#: Set when this process was started again because TVM's default build broke the context of CUDA.
WITHOUT = "OPINFO_BENCHMARK_WITHOUT_TVM"


def main() -> None:
    """Write the row DIR/NAME-DTYPE.time.json."""
    folder, name, dtype, modes = Path(sys.argv[1]), *sys.argv[2:5]
    stem = folder / f"{name}-{dtype}"
    module, inputs = network(name, dtype)
    row: dict[str, Any] = {"name": name, "dtype": dtype, "device": torch.cuda.get_device_name()}
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    runs: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        with alone(folder):
            reference = reference_of(module, inputs)
            _add_libraries(runs, row, str(stem), inputs)
        candidates_one_at_a_time(folder)
        for mode in filter(None, modes.split(",")):
            _add(runs, row, mode, lambda m=mode: compiled(module, inputs, m))
        with alone(folder):
            for key, run in runs.items():
                row[f"{key}_apart"] = _apart(run(), reference)
            row |= _times(runs)
            for key in runs:
                row |= {f"{key}_{k}": v for k, v in profile(runs[key]).row().items()}
            row |= {f"{key}_ours": row["ours"] for key in runs if "ours" in row}
    path = Path(f"{stem}.time.json")
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(_other_peers(before, row) | row, indent=1))
    shown = {k: v for k, v in row.items() if not k.endswith("_kernels")}
    print("ROW", json.dumps(shown), flush=True)


def _other_peers(before: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier run on the same device says of other peers, with our time in that run."""
    if before.get("device") != row["device"]:
        return {}
    other = [p for p in (*MODES, "tvm") if p not in row and p in before]
    return {k: v for k, v in before.items() if any(k == p or k.startswith(f"{p}_") for p in other)}


def _add_libraries(
    runs: dict[str, Any], row: dict[str, Any], stem: str, inputs: tuple[Any, ...]
) -> None:
    """TVM's default build and ours; without the former if it broke the context of CUDA."""
    if Path(f"{stem}.tvm.so").exists() and not os.environ.get(WITHOUT):
        _add(runs, row, "tvm", lambda: _machine(f"{stem}.tvm.so", inputs))
        if "tvm" not in runs and _broken():
            print(f"{row['name']}: TVM's default: {row['tvm_error']}", flush=True)
            os.environ[WITHOUT] = row["tvm_error"]
            command = [sys.executable, "-m", "benchmarks.gpu.time_model", *sys.argv[1:]]
            os.execv(sys.executable, command)
    if os.environ.get(WITHOUT):
        row["tvm_error"] = os.environ[WITHOUT]
    if Path(f"{stem}.so").exists():
        _add(runs, row, "ours", lambda: _machine(f"{stem}.so", inputs))


def _broken() -> bool:
    """Whether CUDA takes no more calls of this process."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


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


def _apart(out: Any, reference: Any) -> float:
    """The largest difference to float32, relative to its largest value."""
    while not hasattr(out, "numpy"):
        out = out[0]
    tensor = out if isinstance(out, torch.Tensor) else torch.from_dlpack(out)
    difference = (tensor.double().cpu() - reference).abs().max() / reference.abs().max()
    return float(difference)


def _times(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Milliseconds of a call, by build: medians of rounds of calls in turns.

    A round is synchronised once. Also `_host`, until a call returns, of a single call on an idle
    device, and `_alone`, until such a call is complete.
    """
    sync = torch.cuda.synchronize
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM:
        for run in runs.values():
            run()
        sync()
    calls = {key: max(1, min(CALLS, int(ROUND / _seconds(run)))) for key, run in runs.items()}
    times: dict[str, list[float]] = {f"{k}{w}": [] for k in runs for w in ("", "_host", "_alone")}
    for _ in range(ROUNDS):
        for key, run in runs.items():
            sync()
            begun = time.perf_counter()
            for _ in range(calls[key]):
                run()
            sync()
            times[key].append((time.perf_counter() - begun) / calls[key] * 1e3)
            begun = time.perf_counter()
            run()
            times[f"{key}_host"].append((time.perf_counter() - begun) * 1e3)
            sync()
            times[f"{key}_alone"].append((time.perf_counter() - begun) * 1e3)
    return {key: round(statistics.median(t), 4) for key, t in times.items()}


def _seconds(run: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
