"""Compile a Relax module with backends: prepare, dispatch with layouts, finish, build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tvm
from tvm import relax
from tvm.support import cc

from ..analysis.support.wording import did_you_mean
from ..layout.graph.checked_module import check_module
from ..layout.report.plan_report import PlanReport
from ..layout.rewrite.func_proofs import CheckedBounds, FuncProofs
from ..layout.search.constraints import Desired
from .backend.backend import Backend
from .backend.catalog import resolve_backends
from .backend.region import Region
from .backends.nvidia.nvrtc.kernel_compiler import no_kernel_compiler
from .building.build_library import build_library, copy_library, on_gpu
from .building.build_retries import build_with_retries
from .building.finish_module import finish_module
from .building.read_target import read_target
from .building.whole_builds import whole_build
from .calibration.calibration import Calibration
from .dispatching.choice.plan_file import DispatchPlan, fingerprint
from .dispatching.device_layouts import prepare_in_faster_layouts
from .dispatching.dispatch_request import DispatchOptions
from .dispatching.dispatched import Dispatched
from .dispatching.replay_dispatch import replay
from .matching.lowered import Lowered
from .prepare.prepare import Preparer
from .process.temporary_folder import TemporaryFolder

if TYPE_CHECKING:
    from .measure import Measure


class SameAsWhole(Exception):
    """One backend would take everything that matters, and the caller has its build already.

    Attributes:
        backend: Its name.
    """

    def __init__(self, backend: str) -> None:
        super().__init__(f"{backend} alone would take everything that matters")
        self.backend = backend


@dataclass(frozen=True)
class CompiledModule:
    """A shared library for TVM's virtual machine.

    Attributes:
        library: Its file; it is removed with this object. `export` keeps a copy.
        dispatched: Which backend has which operators.
    """

    library: Path
    dispatched: Dispatched
    _folder: Any = None

    @property
    def report(self) -> PlanReport | None:
        """The planned layouts; None if they were not planned."""
        return self.dispatched.report

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime."""
        copy_library(self.library, Path(path))

    def machine(self, device: Any = None) -> Any:
        """A virtual machine in this process."""
        return relax.VirtualMachine(tvm.runtime.load_module(str(self.library)),
                                    device or tvm.cpu())  # fmt: skip


class SharedWork:
    """What several builds of one module share: it does not depend on backends and costs.

    Args:
        mod: The module.
        checked: Bounds of parameters that are checked before each call. Plans of layouts and
            dispatches read the module separately, and all get these bounds.

    Attributes:
        prepare: Lowers the module.
        proofs: What is proved about its PrimFuncs, and the bounds of parameters.
        lowered: By the name of each backend that was built alone, the lowered module that it saw.
    """

    def __init__(self, mod: Any, checked: CheckedBounds | None = None) -> None:
        self.prepare, self.proofs = Preparer(mod), FuncProofs(checked)
        self.lowered: dict[str, Lowered] = {}


def compile_module(
    mod: Any,
    backends: Sequence[str | Backend] = ("onednn", "tvm"),
    desired: Desired | str | None = None,
    *,
    priority: Mapping[str, int] | None = None,
    target: Any = "llvm",
    plan: bool = True,
    force: Mapping[str, str] | None = None,
    saved: DispatchPlan | None = None,
    measure: Measure | None = None,
    calibration: Calibration | None = None,
    shared: SharedWork | None = None,
    runs_elsewhere: bool = False,
    whole: Mapping[str, Sequence[str]] | None = None,
) -> CompiledModule:
    """Compile a Relax module to a library.

    A region whose code does not build or load is left out with a warning, and listed in
    `Dispatched.failed`.

    Args:
        mod: A Relax module, lowered or not; it is not changed.
        backends: Names or `Backend` objects.
        desired: The layouts that operators must have, as for `plan_layout`.
        priority: The class of each backend, as for `dispatch`.
        target: TVM's target.
        plan: Choose layouts together with the backends; otherwise they stay unchanged.
        force: Operators that must go to one backend, as for `dispatch`.
        saved: The plan of an earlier call, `CompiledModule.dispatched.plan`: it is replayed,
            nothing is chosen, and nothing is left out.
        measure: Choose by measured times, as for `dispatch`.
        calibration: Choose by calibrated costs, as for `dispatch`.
        shared: What earlier builds of the module did already.
        runs_elsewhere: The caller runs the library in another process next, so that it is not
            checked here that runtimes can build their models.
        whole: Backends that the caller has a build of alone, with the operators that it leaves to
            TVM: what would differ from one of them in layouts only is not built, see `whole_build`.

    Returns:
        The library.

    Raises:
        SameAsWhole: The build was left out; names the backend.
        CannotForce: An operator cannot go where `force` says.
        FileNotFoundError: No C++ compiler is on PATH, or none for kernels of a GPU is installed.
        PlanRefused: The saved plan does not fit the module or the backends.
        ValueError: An argument does not fit the others, or the module has no Relax function.
    """
    named, target = resolve_backends(backends), read_target(target)
    _check(mod, named, priority)
    if on_gpu(target) and (reason := no_kernel_compiler()) is not None:
        raise FileNotFoundError(f"compile_module: kernels of a GPU cannot be compiled: {reason}")
    shared = shared or SharedWork(mod)
    if not shared.prepare.mod.same_as(mod):
        raise ValueError("compile_module: shared is of another module")
    lowered, proofs = _prepare(shared, named, plan, saved), shared.proofs

    def finish(result: Dispatched) -> Dispatched:
        return finish_module(result, plan, desired, target, proofs)

    def build(result: Dispatched, regions: Sequence[Region] = ()) -> CompiledModule:
        return build_module(result, target, regions, runs_elsewhere)

    if saved is not None:
        return build(finish(replay(lowered, saved, named, proofs)))
    layouts: Literal["best", "given"] = "best" if plan else "given"
    how = measure and measure.anew()
    options = DispatchOptions(priority, force, how, layouts, desired, calibration, proofs)
    dispatcher = prepare_in_faster_layouts(lowered, named, options)
    if len(named) == 1 and not plan:
        shared.lowered[named[0].name] = dispatcher.exclusions.request.lowered
    if whole and (name := whole_build(dispatcher.choice(), dispatcher.lowered, whole)):
        raise SameAsWhole(name)
    return build_with_retries(dispatcher, finish, build)


def _check(mod: Any, backends: Sequence[Backend], priority: Mapping[str, int] | None) -> None:
    names = {"tvm", *(b.name for b in backends)}
    if unknown := sorted(set(priority or {}) - names):
        raise ValueError(f"priority: {', '.join(unknown)} is not a requested backend"
                         f"{did_you_mean(unknown[0], names)}")  # fmt: skip
    check_module(mod, "compile_module")
    if cc.get_cc() is None:
        raise FileNotFoundError("compile_module: no C++ compiler on PATH: install g++ or "
                                "clang++")  # fmt: skip
    if not any(isinstance(f, relax.Function) for f in mod.functions.values()):
        raise ValueError("compile_module: the module has no Relax function")


def _prepare(
    shared: SharedWork, backends: Sequence[Backend], plan: bool, saved: DispatchPlan | None
) -> Any:
    """The lowered module. A saved plan may be of a module that was prepared without backends."""
    lowered = shared.prepare(backends, relaid=plan)
    if saved is None or saved.module == fingerprint(lowered):
        return lowered
    folded = shared.prepare()
    return folded if saved.module == fingerprint(folded) else lowered


def build_module(
    result: Dispatched, target: Any, regions: Sequence[Region], runs_elsewhere: bool
) -> CompiledModule:
    """The library of a dispatched module; the arguments are those of `build_library`."""
    folder = TemporaryFolder("opinfo-")
    library = folder.path / "model.so"
    try:
        build_library(result, library, target, regions, runs_elsewhere)
    except BaseException:
        folder.remove()
        raise
    return CompiledModule(library, result, folder)
