"""The shared library of a dispatched module."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from ...analysis.support.files.atomic_replace import replacing
from ...analysis.support.progress import stage
from ..backend.region import Region
from ..codegen.embedding.embedded import embedded
from ..codegen.export import export_library
from ..codegen.loading.check_arity import check_calls
from ..codegen.loading.check_init import check_init
from ..codegen.loading.check_plans import check_plans
from ..codegen.loading.cuda_device import cuda_device
from ..codegen.loading.load_checked import check_opens, load_checked
from ..dispatching.dispatched import Dispatched
from ..prepare.fuse import fuse
from .cpu_program import cpu_program
from .read_target import read_target


def build_library(
    result: Dispatched, library: Path, target: Any = "llvm", regions: Sequence[Region] = (),
    runs_elsewhere: bool = False,
) -> None:  # fmt: skip
    """Compile a dispatched module, and load the library once so that missing symbols show now.

    Without a GPU, a library for GPUs is opened only.

    ``runs_elsewhere`` is that of `load_checked`.

    Raises:
        Unplanned: A library has no kernel for one of ``regions`` on the GPU of this machine.
        Miscalled: The module calls one of ``regions`` with arguments that it does not take.
        MissingInit: A backend's code has constants but no function that loads them.
    """
    device = tvm.cpu()
    data: Mapping[str, Sequence[Any]] = {}
    options = tuple(result.options)
    if on_gpu(target):
        from ..backends.nvidia.tvm_schedules import compiled, graph_options

        device = cuda_device()
        options += graph_options()
        program = compiled(result.module, target, fuse, whole_calls=bool(graph_options()))
    else:
        apart = embedded(result.module)
        program, more = cpu_program(fuse(apart.module), target, result.options)
        data, options = apart.data, options + more
    stage("linking")
    export_library(program, library, options, data)
    if on_gpu(target) and not device.exist:  # it is for another machine
        check_opens(str(library))
    elif result.taken:
        loaded = load_checked(str(library), device, runs_elsewhere)
        check_init(loaded, result.module, data)
        check_calls(loaded, regions)
        if runs_here(target):
            stage("building plans")
            check_plans(loaded, regions)
    else:
        relax.VirtualMachine(tvm.runtime.load_module(str(library)), device)


def copy_library(library: Path, path: Path) -> None:
    """Copy a library to a path, where it appears complete or not at all.

    Raises:
        OSError: The path is a folder, or its folder does not exist or cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name the file, such as {path / 'model.so'}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: folder {path.parent} does not exist")
    with replacing(path) as part:
        shutil.copyfile(library, part)
        part.chmod(0o755)


def on_gpu(target: Any) -> bool:
    """Whether code for this target runs on an NVIDIA GPU."""
    return bool(read_target(target).kind.name == "cuda")


def runs_here(target: Any) -> bool:
    """Whether this machine has a GPU of the architecture of a target for GPUs."""
    device = cuda_device()
    if not on_gpu(target) or not device.exist:
        return False
    arch = str(read_target(target).attrs.get("arch", "")).removesuffix("a")
    return arch in ("", f"sm_{device.compute_version.replace('.', '')}")
