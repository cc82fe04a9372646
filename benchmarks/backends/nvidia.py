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

from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.tvm_schedules import compiled
from opinfo.byoc.dispatching.choice.objective import keeping_chains
from opinfo.byoc.dispatching.dispatch import Dispatched, dispatch
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare
from opinfo.layout.plan import plan_layout
from tests.byoc.nvidia.nvidia_cases import CASES, NUMPY, inputs, module
from tests.common.run import run

Array = np.ndarray[Any, Any]
nn, op = relax.op.nn, relax.op


def anywhere(name: str) -> Backend:
    """Return a backend that is available without a GPU, to build libraries for another machine."""
    backend = find(name)
    return replace(backend, available=lambda: _without_gpu(backend.available()))


def _without_gpu(reason: str | None) -> str | None:
    return None if reason is None or "GPU" in reason else reason


def library(dispatched: Dispatched, path: Path, arch: str) -> None:
    """Export a dispatched module as a shared object for GPUs of this architecture."""
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    target = tvm.target.Target({"kind": "cuda", "arch": arch, "thread_warp_size": 32, **limits})
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


#: name: backend, type, shapes, graph; `nvidia_run` has the same graph in torch.
SPEED: dict[str, tuple[str, str, tuple[tuple[int, ...], ...], Callable[..., Any]]] = {}


def _speed(name: str, kind: str, dtype: str, *shapes: tuple[int, ...], by: Sequence[str]) -> None:
    for backend in by:
        SPEED[f"{name} {dtype}, {backend}"] = (backend, dtype, shapes, GRAPHS[kind])


def _dense(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(op.matmul(x, emit(op.permute_dims(weight)))), bias))))


def _last(x: Any, weight: Any, **attrs: Any) -> Any:
    return nn.conv2d(x, weight, padding=int(weight.ty.shape[1]) // 2, data_layout="NHWC",
                     kernel_layout="OHWI", **attrs)  # fmt: skip


def _conv(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(_last(x, weight)), bias))))


def _grouped(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = _last(x, weight, groups=int(weight.ty.shape[0]))
    return emit(nn.relu(emit(op.add(emit(y), bias))))


def _stem(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(_last(x, weight, strides=2)), bias))))


def _patches(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Patches of an image, as a ViT embeds them."""
    y = nn.conv2d(
        x, weight, strides=int(weight.ty.shape[1]), data_layout="NHWC", kernel_layout="OHWI"
    )
    return emit(op.add(emit(y), bias))


def _block(emit: Any, x: Any, weight: Any, bias: Any, residual: Any) -> Any:
    y = emit(op.add(emit(op.add(emit(_last(x, weight)), bias)), residual))
    return emit(nn.relu(y))


def _hard_swish(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = emit(op.add(emit(_last(x, weight)), bias))
    gate = emit(op.clip(emit(op.add(y, relax.const(3.0, x.ty.dtype))), 0.0, 6.0))
    return emit(op.divide(emit(op.multiply(y, gate)), relax.const(6.0, x.ty.dtype)))


def _silu(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.silu(emit(op.add(emit(_last(x, weight)), bias))))


def _transposed(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = nn.conv2d_transpose(x, weight, strides=2, padding=1)
    return emit(nn.relu(emit(op.add(emit(y), bias))))


def _first(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    return emit(nn.relu(emit(op.add(emit(nn.conv2d(x, weight, padding=1)), bias))))


def _batch(emit: Any, x: Any, y: Any) -> Any:
    return emit(op.matmul(x, y))


GRAPHS: dict[str, Callable[..., Any]] = {
    "dense": _dense, "conv": _conv, "depthwise": _grouped, "conv NCHW": _first, "batch": _batch,
    "stem": _stem, "patches": _patches, "residual": _block, "silu": _silu,
    "hard swish": _hard_swish, "transposed": _transposed,
}  # fmt: skip
GEMMS = ("cublaslt", "cutlass")
for m, k, n in ((128, 768, 3072), (4096, 4096, 4096)):
    for t in ("float16", "bfloat16", "float32"):
        by = GEMMS if t == "float16" or (t, m) == ("float32", 4096) else GEMMS[:1]
        _speed(f"dense {m}x{k}x{n}", "dense", t, (m, k), (n, k), (n,), by=by)
_speed("batch 96x512x64x512", "batch", "float16", (96, 512, 64), (96, 64, 512), by=GEMMS[:1])
for t in ("float16", "float32"):
    _speed("conv 3x3 64 56x56", "conv", t, (32, 56, 56, 64), (64, 3, 3, 64), (64,), by=("cudnn",))
    _speed("conv 1x1 256 14x14", "conv", t, (32, 14, 14, 256), (1024, 1, 1, 256), (1024,),
           by=("cudnn",))  # fmt: skip
    _speed("conv NCHW 3x3 128 28x28", "conv NCHW", t, (32, 128, 28, 28), (128, 128, 3, 3),
           (1, 128, 1, 1), by=("cudnn",))  # fmt: skip
    _speed("residual 1x1 64 56x56", "residual", t, (32, 56, 56, 64), (256, 1, 1, 64), (256,),
           (32, 56, 56, 256), by=("cudnn",))  # fmt: skip
    _speed("residual 1x1 256 14x14, batch 1", "residual", t, (1, 14, 14, 256), (1024, 1, 1, 256),
           (1024,), (1, 14, 14, 1024), by=("cudnn",))  # fmt: skip
    _speed("conv 3x3 256 14x14, batch 1", "conv", t, (1, 14, 14, 256), (256, 3, 3, 256), (256,),
           by=("cudnn",))  # fmt: skip
    for c in (3, 4, 8):
        _speed(f"stem 7x7 {c} 224x224", "stem", t, (32, 224, 224, c), (64, 7, 7, c), (64,),
               by=("cudnn",))  # fmt: skip
        _speed(f"stem 3x3 {c} 224x224", "stem", t, (32, 224, 224, c), (32, 3, 3, c), (32,),
               by=("cudnn",))  # fmt: skip
        _speed(f"patches 16x16 {c} 224x224", "patches", t, (32, 224, 224, c), (768, 16, 16, c),
               (768,), by=("cudnn",))  # fmt: skip
    _speed("silu 1x1 96 56x56", "silu", t, (32, 56, 56, 96), (24, 1, 1, 96), (24,), by=("cudnn",))
    _speed("hard swish 1x1 112 14x14", "hard swish", t, (32, 14, 14, 112), (672, 1, 1, 112), (672,),
           by=("cudnn",))  # fmt: skip
    _speed("transposed 4x4 256 32x32", "transposed", t, (8, 256, 32, 32), (256, 128, 4, 4),
           (1, 128, 1, 1), by=("cudnn",))  # fmt: skip
    _speed("depthwise 3x3 128 56x56", "depthwise", t, (32, 56, 56, 128), (128, 3, 3, 1), (128,),
           by=("cudnn",))  # fmt: skip
    _speed("depthwise 7x7 96 56x56", "depthwise", t, (32, 56, 56, 96), (96, 7, 7, 1), (96,),
           by=("cudnn",))  # fmt: skip


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
            "shapes": shapes, "symbol": region.symbol, "order": _order(dispatched, region.symbol),
            "result": [int(e) for e in mod["main"].ret_ty.shape.values]}  # fmt: skip


def _order(dispatched: Dispatched, symbol: str) -> list[int]:
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
