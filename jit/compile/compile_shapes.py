"""The whole way for symbolic shapes: lower, fuse, choose strategies, build one library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.support import cc

from ...analysis.lifting.tir.node import items
from ...analysis.support.progress import stage
from ...byoc.backend.backend import Backend
from ...byoc.backend.region import Region
from ...byoc.building.build_library import copy_library
from ...byoc.building.build_retries import build_with_retries
from ...byoc.building.finish_module import finish_module
from ...byoc.building.read_target import read_target
from ...byoc.codegen import toolchain
from ...byoc.codegen.arity import check_calls
from ...byoc.codegen.deduplicate import deduplicate
from ...byoc.codegen.executable import executable
from ...byoc.codegen.host import native_target
from ...byoc.codegen.loading import load_checked
from ...byoc.dispatching.dispatch_request import Options
from ...byoc.dispatching.dispatched import Dispatched
from ...byoc.dispatching.plan_file import DispatchPlan
from ...byoc.dispatching.replay_dispatch import replay
from ...byoc.patterns.failure import last_line
from ...byoc.prepare.fuse import fuse
from ...byoc.prepare.prepare import prepare
from ...byoc.process.folder import Folder
from ...layout.graph.unused import check_defined
from ..config.named_dims import resolved
from ..config.strategy import Config, Strategy, config
from ..kernels.build_kernel import compiled
from ..kernels.simplify import simplified
from .library_calls import handed_over
from .specialize import Specialized, SpecializedFunction, specialize_shapes

RESHAPE = tvm.ir.Op.get("relax.reshape")
#: For the C++ compiler; what two libraries have in common must not be one in a process.
OPTIONS = ["-fno-gnu-unique"]


@dataclass(frozen=True)
class CompiledShapes:
    """A shared library for TVM's virtual machine, and how each symbolic function is compiled.

    Attributes:
        library: The path of the library, which lives as long as this object.
        functions: What became of each function with symbolic shapes.
        dispatched: What backends have, where the strategy is `Library`; else None.
    """

    library: Path
    functions: tuple[SpecializedFunction, ...]
    dispatched: Dispatched | None = None
    _folder: Folder | None = None

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime."""
        copy_library(self.library, Path(path))


def compile_shapes(
    mod: Any,
    given: Config | Strategy | str = "jit",
    target: Any = None,
    *,
    backends: Sequence[str | Backend] = (),
    options: Options | None = None,
    saved: DispatchPlan | None = None,
) -> CompiledShapes:
    """Compile a Relax module with symbolic shapes.

    Args:
        mod: The module; it is not changed.
        given: How functions with symbolic shapes are compiled.
        target: TVM's target, a CPU; by default this one, with one thread.
        backends: Names or `Backend` objects. They take operators that `given` names no strategy
            for; what they leave is compiled as `given` says. The backends of the strategy `Library`
            take its operators without being named here.
        options: How to dispatch, as the arguments of `opinfo.byoc.dispatch`.
        saved: The plan of an earlier call; nothing is chosen again.

    Returns:
        The library, and how each function is compiled.

    Raises:
        TypeError: `mod` is not a module.
        ValueError: The configuration does not fit the module, or the target is a GPU.
        FileNotFoundError: There is no C++ compiler.
    """
    _check(mod)
    wanted = _target(target)
    found = resolved(config(given), mod)
    options = options or Options()
    plan = options.layouts == "best"
    prepared = prepare(mod, backends, relaid=plan)

    def finish(done: Dispatched) -> Dispatched:
        return finish_module(done, plan, options.desired, wanted)

    if saved is not None:
        done = finish(replay(prepared, saved, backends))
        return _compiled(done.module, done, found, wanted)
    dispatcher = handed_over(prepared, found, backends, options)
    if dispatcher is None:
        return _compiled(prepared, None, found, wanted)
    return build_with_retries(
        dispatcher,
        finish,
        lambda done, regions: _compiled(done.module, done, found, wanted, regions),
    )


def _compiled(
    mod: Any, handed: Dispatched | None, found: Config, target: Any, regions: Sequence[Region] = ()
) -> CompiledShapes:
    """The library of a lowered module; with regions of backends it is loaded once.

    Raises what the compiler, the linker and the loader do.
    """
    done, made = _built(fused(mod), found, target)
    folder = Folder("opinfo-")
    library = folder.path / "model.so"
    stage("linking")
    given = [*toolchain.OPTIONS, *OPTIONS, *(() if handed is None else handed.options)]
    made.export_library(str(library), fcompile=toolchain.shared, options=given)
    if regions:
        check_calls(load_checked(str(library), tvm.cpu()), regions)
    return CompiledShapes(library, done.functions, handed, folder)


def _check(mod: Any) -> None:
    check_defined(mod, "compile_shapes")
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, relax.Function)}
    if not functions:
        raise ValueError("compile_shapes: the module has no Relax function")
    for name, func in functions.items():
        if free := relax.analysis.free_vars(func):
            raise ValueError("compile_shapes: nothing defines the variable "
                             f"{', '.join(v.name for v in free)} of {name}")  # fmt: skip
    if cc.get_cc() is None:
        raise FileNotFoundError("compile_shapes: there is no C++ compiler (g++ or clang++) on PATH "
                                "to link the library with")  # fmt: skip


def _target(given: Any) -> Any:
    target = native_target() if given is None else read_target(given)
    if "gpu" in target.keys:
        raise ValueError(
            f"compile_shapes: the target is {target.kind.name}; kernels for shapes "
            "are made for CPUs (for a GPU: opinfo compile --target cuda)"
        )
    return target


def _built(mod: Any, found: Config, target: Any) -> tuple[Specialized, Any]:
    """Compiled; functions whose schedules TVM does not build are as they were, which is told."""
    done = specialize_shapes(mod, found, target)
    try:
        return done, executable(done.module, target)
    except Exception:
        failed = {}
        for told in done.functions:
            try:
                compiled(done.module[told.function], target, told.function)
            except Exception as e:  # what TVM's lowering and LLVM raise
                failed[told.function] = f"its schedule does not build: {last_line(e)[:200]}"
        if not failed:
            raise
    done = specialize_shapes(mod, found, target, failed)
    return done, executable(done.module, target)


def lowered(mod: Any) -> Any:
    """Prepared, lowered and fused."""
    return fused(prepare(mod))


def fused(mod: Any) -> Any:
    """A lowered module, fused; what only reshapes is a view, which needs no kernel."""
    return deduplicate(relax.transform.RewriteDataflowReshape()(fuse(simplified(mod))), _view)


def _view(value: Any) -> tuple[Any, ...] | None:
    """The tensor and the extents, where a view is made. Views share memory: also where something
    is written in place, two of them are one."""
    if not (isinstance(value, relax.Call) and value.op == RESHAPE
            and isinstance(value.args[1], relax.ShapeExpr)):  # fmt: skip
        return None
    extents = [_extent(e) for e in items(value.args[1].values)]
    return None if None in extents else (value.args[0].__chandle__(), *extents)


def _extent(e: Any) -> tuple[str, int] | None:
    if isinstance(e, tirx.IntImm):
        return "number", int(e.value)
    return ("variable", e.__chandle__()) if isinstance(e, tvm.ir.Var) else None
