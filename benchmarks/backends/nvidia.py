"""Compile, run, compare and time NVIDIA's backends on a GPU, against torch.

    python -m benchmarks.nvidia [--arch sm_90] [--only NAME ...] [--json FILE]
    python -m benchmarks.nvidia --build DIR     # here: needs the headers and nvcc, but no GPU
    python DIR/nvidia_run.py DIR [--json FILE]  # there: needs TVM's runtime, torch and the GPU

`cases`: the graphs of `tests.byoc.nvidia.nvidia_cases`, all of them in one library for TVM's
virtual machine, against the same numbers computed by TVM on the CPU in float32. `speed`: one
region each, called on torch's tensors, against torch and TVM's own schedules. `models`: whole
models, with TVM for the other operators, against the unmodified module on the CPU. Half-precision
results may differ by rounding; float32 is multiplied as float32 in both (no tf32).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from benchmarks.backends.nvidia_graphs import GRAPHS, SPEED
from benchmarks.common.cuda_target import cuda_target
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.tvm_schedules import compiled
from opinfo.byoc.dispatching.choice.objective import keeping_chains
from opinfo.byoc.dispatching.dispatch import Dispatched, dispatch
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare
from opinfo.layout.plan import plan_layout
from tests.byoc.nvidia.cases.case import NUMPY
from tests.byoc.nvidia.nvidia_cases import CASES, inputs, module
from tests.common.run import run

Array = np.ndarray[Any, Any]


def anywhere(name: str) -> Backend:
    """Return a backend that is available without a GPU, to build libraries for another machine."""
    backend = find(name)
    return replace(backend, available=lambda: _without_gpu(backend.available()))


def _without_gpu(reason: str | None) -> str | None:
    return None if reason is None or "GPU" in reason else reason


def library(dispatched: Dispatched, path: Path, arch: str) -> None:
    """Export a dispatched module as a shared object for GPUs of this architecture."""
    target = cuda_target(arch)
    executable = compiled(dispatched.module, target, fuse)
    executable.export_library(str(path), options=["-O2", *dispatched.options])


def save(path: Path, arrays: Sequence[Array], expected: Sequence[Array]) -> None:
    """Save arrays for numpy without ml_dtypes: bfloat16 as its bits."""
    saved: dict[str, Any] = {f"x{k}": a.view("uint16") if a.dtype == NUMPY["bfloat16"] else a
            for k, a in enumerate(arrays)}  # fmt: skip
    saved |= {f"y{k}": a for k, a in enumerate(expected)}
    np.savez(path, **saved)


def build_cases(name: str, folder: Path, arch: str) -> dict[str, Any]:
    cases = CASES[name]
    dispatched = dispatch(prepare(module(cases)), [anywhere(name)])
    library(dispatched, folder / f"cases_{name}.so", arch)
    values = [a for case in inputs(cases) for a in case]
    exact = [a for case in inputs(cases, exact=True) for a in case]
    save(folder / f"cases_{name}.npz", values, run(module(cases, exact=True), exact))
    return {"kind": "cases", "name": name, "file": f"cases_{name}", "summary": dispatched.summary(),
            "results": [[case, c.dtype] for case, c in cases.items()],
            "inputs": [c.dtype for c in cases.values() for _ in c.shapes]}  # fmt: skip


def build_model(name: str, backends: Sequence[str], folder: Path, arch: str) -> dict[str, Any]:
    mod, values = _model(name)
    chosen = [anywhere(b) for b in backends]
    lowered = prepare(mod)
    layouts = {k: v for b in chosen for k, v in b.wants.items()}
    planned = plan_layout(lowered, layouts, mode="graph", objective=keeping_chains()).module
    dispatched = dispatch(planned, chosen)
    library(dispatched, folder / f"model_{name}.so", arch)
    plain = dispatch(relax.transform.LegalizeOps()(mod), [])
    library(plain, folder / f"plain_{name}.so", arch)
    save(folder / f"model_{name}.npz", values, run(mod, values))
    return {"kind": "model", "name": name, "file": f"model_{name}", "plain": f"plain_{name}",
            "summary": dispatched.summary(), "inputs": [str(v.dtype) for v in values]}  # fmt: skip


def _model(name: str) -> tuple[Any, list[Array]]:
    from benchmarks.common.full_models import onnx_model
    from opinfo.frontend.formats.from_onnx import from_model
    from tests import models

    if name in models.LIGHT:
        model, values = onnx_model(name)
        return from_model(model, {}), list(values.values())
    return models.module(name), [*models.inputs(name), *models.weights(name)]


def build_speed(name: str, folder: Path, arch: str, alone: bool) -> dict[str, Any]:
    backend, dtype, shapes, graph = SPEED[name]
    xs = [relax.Var(f"x{k}", relax.TensorType(s, dtype)) for k, s in enumerate(shapes)]
    bb = relax.BlockBuilder()
    with bb.function("main", xs):
        with bb.dataflow():
            out = bb.emit_output(graph(bb.emit, *xs))
        bb.emit_func_output(out)
    mod = relax.transform.LegalizeOps()(bb.get())
    dispatched = dispatch(mod, [anywhere(backend)])
    (region,) = dispatched.taken
    file = f"speed_{list(SPEED).index(name)}"
    library(dispatched, folder / f"{file}.so", arch)
    if not alone:
        library(dispatch(mod, []), folder / f"{file}_plain.so", arch)
    kind = next(k for k, g in GRAPHS.items() if g is graph)
    return {"kind": "speed", "name": name, "file": file, "graph": kind, "dtype": dtype,
            "shapes": shapes, "symbol": region.symbol,
            "order": input_order(dispatched, region.symbol),
            "result": [int(e) for e in mod["main"].ret_ty.shape.values]}  # fmt: skip


def input_order(dispatched: Dispatched, symbol: str) -> list[int]:
    """Return the indices of the parameters of `main` that a region takes."""
    main = dispatched.module["main"]
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    (call,) = [value for value in values
               if isinstance(value, relax.Call) and isinstance(value.args[0], relax.ExternFunc)
               and value.args[0].global_symbol == symbol]  # fmt: skip
    params = list(main.params)
    return [next(k for k, p in enumerate(params) if p.same_as(a)) for a in call.args[1].fields]


MODELS = {"squeezenet": ("cudnn", "cublaslt"), 
          "bert": ("cublaslt",)}  # fmt: skip


def build(folder: Path, arch: str, only: Sequence[str], alone: bool = False) -> None:
    """Build all libraries, their inputs and expected outputs, and a list of them."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[tuple[str, Callable[[], dict[str, Any]]]] = []
    jobs += [(f"cases {n}", lambda n=n: build_cases(n, folder, arch)) for n in CASES]
    jobs += [(f"model {n}", lambda n=n, b=b: build_model(n, b, folder, arch))
             for n, b in MODELS.items()]  # fmt: skip
    jobs += [(f"speed {n}", lambda n=n: build_speed(n, folder, arch, alone)) for n in SPEED]
    listed = folder / "jobs.json"
    entries = json.loads(listed.read_text()) if listed.exists() else {}
    for name, job in jobs:
        if only and not any(part in name for part in only):
            continue
        print(f"{name} ...", flush=True)
        try:
            entries[name] = job()
        except Exception as error:  # reported; the other jobs continue
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    listed.write_text(json.dumps(entries, indent=1))
    shutil.copy(Path(__file__).with_name("nvidia_run.py"), folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nvidia")
    parser.add_argument("--arch", help="architecture of the GPU; default: this machine's, or sm_90")
    parser.add_argument("--build", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, as printed")
    parser.add_argument("--alone", action="store_true", help="without TVM's own schedules")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    gpu = tvm.cuda(0)
    arch = options.arch or ("sm_" + gpu.compute_version.replace(".", "") if gpu.exist
                            else "sm_90")  # fmt: skip
    if options.build is not None:
        build(options.build, arch, options.only, options.alone)
        return 0
    if not gpu.exist:
        print("no GPU found; build for another machine with --build DIR")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), arch, options.only, options.alone)
        words = [sys.executable, f"{folder}/nvidia_run.py", folder]
        return subprocess.run(words + (["--json", options.json] if options.json else [])).returncode


if __name__ == "__main__":
    raise SystemExit(main())
