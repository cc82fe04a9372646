"""Compile a module with symbolic shapes: lower, dispatch, fuse, specialise, link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.support import cc

from ...analysis.lifting.tir.node import items
from ...analysis.support.exports import renamed_parameter
from ...analysis.support.progress import stage
from ...analysis.support.wording import last_line
from ...byoc.backend.backend import Backend
from ...byoc.backend.region import Region
from ...byoc.building.build_library import copy_library
from ...byoc.building.build_retries import build_with_retries
from ...byoc.building.finish_module import finish_module
from ...byoc.building.read_target import read_target
from ...byoc.codegen.deduplicate import deduplicate
from ...byoc.codegen.executable import executable
from ...byoc.codegen.export import export_library
from ...byoc.codegen.host_target import native_target
from ...byoc.codegen.loading.check_arity import check_calls
from ...byoc.codegen.loading.load_checked import load_checked
from ...byoc.dispatching.choice.plan_file import DispatchPlan
from ...byoc.dispatching.dispatch_request import DispatchOptions
from ...byoc.dispatching.dispatched import Dispatched
from ...byoc.dispatching.replay_dispatch import replay
from ...byoc.prepare.fuse import fuse
from ...byoc.prepare.loops.serial_threads import serial_threads
from ...byoc.prepare.paged.own_attention import own_attention
from ...byoc.prepare.prepare import prepare
from ...byoc.process.temporary_folder import TemporaryFolder
from ...layout.graph.checked_module import check_module
from ..arguments.kept_ranges import index_ranges_by_function, with_index_ranges
from ..config.named_dims import resolved
from ..config.strategy import Config, Strategy, checked_config
from ..kernels.build_kernel import compiled
from ..kernels.simplify import simplified
from .call_site_code import runtime
from .library_calls import dispatch_to_backends
from .pack_weights import pack_weights
from .specialize import by_function, specialize_shapes
from .specialized_function import Specialized, SpecializedFunction

RESHAPE = tvm.ir.Op.get("relax.reshape")
#: C++ options: two libraries in a process must not share their inline variables.
OPTIONS = ["-fno-gnu-unique"]
INCLUDES = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]


@dataclass(frozen=True)
class CompiledShapes:
    """A shared library for TVM's virtual machine, and how each symbolic function is compiled.

    Attributes:
        library: The path of the library, which exists as long as this object.
        functions: How each function with symbolic shapes is compiled.
        dispatched: The dispatch to backends; None without backends.
    """

    library: Path
    functions: tuple[SpecializedFunction, ...]
    dispatched: Dispatched | None = None
    _folder: TemporaryFolder | None = None

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process with the TVM runtime."""
        copy_library(self.library, Path(path))


@renamed_parameter("given", "strategy")
def compile_shapes(
    mod: Any,
    strategy: Config | Strategy | str = "jit",
    target: Any = None,
    *,
    backends: Sequence[str | Backend] = (),
    options: DispatchOptions | None = None,
    saved: DispatchPlan | None = None,
) -> CompiledShapes:
    """Compile a Relax module with symbolic shapes.

    Code of PrimFuncs compares the extents that they need to be equal. What operators of Relax
    require of sizes is not checked here: `opinfo.compile` adds it to a module.

    Args:
        mod: The module; it is not modified.
        strategy: A strategy for functions with symbolic shapes, its name, or a `Config`.
        target: TVM's target, a CPU; by default this CPU, with one thread.
        backends: Names or `Backend` objects. They take operators without an entry in `by_op`;
            `strategy` applies to the others. Backends that a `Library` strategy names need not be
            listed; its default ones take nothing if others are listed.
        options: Options of the dispatch, as in `opinfo.byoc.dispatch`.
        saved: The dispatch plan of an earlier call, to replay.

    Returns:
        The library, and how each function is compiled.

    Raises:
        TypeError: `mod` is not a module.
        ValueError: The configuration does not fit the module, or the target is a GPU.
        FileNotFoundError: No C++ compiler is installed.
    """
    _check(mod)
    cpu = _target(target)
    settings = resolved(checked_config(strategy), mod)
    options = options or DispatchOptions()
    planned = options.layouts == "best"
    prepared = prepare(mod, backends, relaid=planned)
    indices = index_ranges_by_function(mod)

    def finish(result: Dispatched) -> Dispatched:
        return finish_module(result, planned, options.desired, cpu, options.proofs)

    def link(
        module: Any, dispatched: Dispatched | None, regions: Sequence[Region] = ()
    ) -> CompiledShapes:
        checked = with_index_ranges(module, indices)
        return _specialize_and_link(checked, dispatched, settings, cpu, regions)

    if saved is not None:
        dispatched = finish(replay(prepared, saved, backends, options.proofs))
        return link(dispatched.module, dispatched)
    dispatcher = dispatch_to_backends(prepared, settings, backends, options)
    if dispatcher is None:
        return link(serial_threads(own_attention(prepared, cpu)), None)
    return build_with_retries(
        dispatcher, finish, lambda result, regions: link(result.module, result, regions)
    )


def _specialize_and_link(
    mod: Any, dispatched: Dispatched | None, settings: Config, target: Any,
    regions: Sequence[Region] = (),
) -> CompiledShapes:  # fmt: skip
    """Specialise and link a lowered module; with regions of backends, also load it as a check.

    Errors of the compiler, the linker and the loader propagate.
    """
    mod = fused(mod)
    settings = by_function(mod, settings)
    specialized, built = _build(pack_weights(mod, target), settings, target)
    folder = TemporaryFolder("opinfo-")
    library = folder.path / "model.so"
    stage("linking")
    flags = [*OPTIONS, *(() if dispatched is None else dispatched.options)]
    # Options of backends differ by model, and what all call sites do takes seconds to compile.
    export_library(built, library, flags, alone={runtime(): [*OPTIONS, "-std=c++17", *INCLUDES]})
    if regions:
        check_calls(load_checked(str(library), tvm.cpu()), regions)
    return CompiledShapes(library, specialized.functions, dispatched, folder)


def _check(mod: Any) -> None:
    check_module(mod, "compile_shapes")
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, relax.Function)}
    if not functions:
        raise ValueError("compile_shapes: the module has no Relax function")
    for name, func in functions.items():
        if free := relax.analysis.free_vars(func):
            raise ValueError("compile_shapes: nothing defines the variable "
                             f"{', '.join(v.name for v in free)} of {name}")  # fmt: skip
    if cc.get_cc() is None:
        raise FileNotFoundError("compile_shapes: no C++ compiler on PATH: install g++ or "
                                "clang++")  # fmt: skip


def _target(requested: Any) -> Any:
    target = native_target() if requested is None else read_target(requested)
    if "gpu" in target.keys:
        raise ValueError(
            f"compile_shapes: the target is {target.kind.name}; symbolic "
            "shapes are compiled for CPUs only (for a GPU, use: opinfo compile --target cuda)"
        )
    return target


def _build(mod: Any, settings: Config, target: Any) -> tuple[Specialized, Any]:
    """Specialise and build; functions whose schedules fail to build stay unscheduled."""
    specialized = specialize_shapes(mod, settings, target)
    try:
        return specialized, executable(specialized.module, target)
    except Exception:
        failed = {}
        for row in specialized.functions:
            try:
                compiled(specialized.module[row.function], target, row.function)
            except Exception as error:  # TVM's lowering and LLVM may raise anything
                failed[row.function] = f"its schedule does not build: {last_line(error)[:200]}"
        if not failed:
            raise
    specialized = specialize_shapes(mod, settings, target, failed)
    return specialized, executable(specialized.module, target)


def lowered(mod: Any) -> Any:
    """Prepare, lower and fuse a module."""
    return fused(prepare(mod))


def fused(mod: Any) -> Any:
    """Fuse a lowered module; reshapes become views, which need no kernel."""
    return deduplicate(relax.transform.RewriteDataflowReshape()(fuse(simplified(mod))), _view)


def _view(value: Any) -> tuple[Any, ...] | None:
    """Return the tensor and extents of a view, which identify it.

    Equal views can be merged even if they are written in place, because they share memory.
    """
    if not (isinstance(value, relax.Call) and value.op == RESHAPE
            and isinstance(value.args[1], relax.ShapeExpr)):  # fmt: skip
        return None
    extents = [_extent(e) for e in items(value.args[1].values)]
    return None if None in extents else (value.args[0].__chandle__(), *extents)


def _extent(expr: Any) -> tuple[str, int] | None:
    if isinstance(expr, tirx.IntImm):
        return "number", int(expr.value)
    return ("variable", expr.__chandle__()) if isinstance(expr, tvm.ir.Var) else None
