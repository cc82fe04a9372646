"""Builds of the kernels of `benchmarks.gpu_kernels`: by opinfo's schedules and by TVM's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common.cuda_target import cuda_target

from .gpu_kernel_cases import KERNELS, module

WAYS = ("opinfo", "tvm")


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
    target = cuda_target(arch)
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
