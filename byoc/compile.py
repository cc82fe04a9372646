"""The whole way: prepare, plan layouts, dispatch, fuse what is left, build one library."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import tvm
from tvm import relax
from tvm.support import cc

from ..analysis.support.progress import stage
from ..analysis.support.replacing import replacing
from ..layout.graph.unused import check_defined
from ..layout.report.plan_report import PlanReport
from ..layout.search.constraints import Desired
from .backend.backend import Backend
from .backend.catalog import given
from .backend.region import Region
from .codegen.arity import check_calls
from .codegen.executable import executable
from .codegen.loading import tried
from .codegen.toolchain import OPTIONS, shared
from .dispatching.dispatch import Dispatched, Options, attempt, warn
from .dispatching.fallback_layouts import in_own_layouts
from .dispatching.plan_file import DispatchPlan, fingerprint
from .dispatching.replay_dispatch import replay
from .dispatching.retry import Attempt
from .prepare.fuse import fuse
from .prepare.integers import DEQUANTIZE
from .prepare.prepare import prepare
from .process.folder import Folder

if TYPE_CHECKING:
    from .measure import Measure

T = TypeVar("T")


@dataclass(frozen=True)
class CompiledModule:
    """A shared library for TVM's virtual machine, and what is in it."""

    library: Path
    dispatched: Dispatched
    _folder: Any = None

    @property
    def report(self) -> PlanReport | None:
        """What became of layouts, where they were chosen."""
        return self.dispatched.report

    def export(self, path: str | Path) -> None:
        """Write the library; it loads in any process that has the TVM runtime."""
        placed(self.library, Path(path))

    def machine(self, device: Any = None) -> Any:
        """A virtual machine in this process."""
        return relax.VirtualMachine(tvm.runtime.load_module(str(self.library)),
                                    device or tvm.cpu())  # fmt: skip


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
) -> CompiledModule:
    """A Relax module as a library; ``mod`` is not changed.

    Layouts are chosen with the backends, in one problem; those that are ``desired`` by operator
    (see `plan_layout`) must be. ``plan=False`` leaves layouts as they are. A region whose code does
    not build or load is left out with a warning, as `dispatch` does; `Dispatched.failed` has them.
    ``force`` and ``measure`` are as in
    `dispatch`. ``saved`` is a plan of an earlier call (`Compiled.dispatched.plan`): nothing is
    chosen, and nothing is left out; raises `PlanRefused` where it is of something else.
    Raises ``FileNotFoundError`` where there is no C++ compiler.
    """
    chosen = given(backends)
    unknown = set(priority or {}) - {"tvm", *(b.name for b in chosen)}
    if unknown:
        raise ValueError(f"priority: {', '.join(sorted(unknown))} is not among the backends")
    check_defined(mod, "compile_module")
    if cc.get_cc() is None:
        raise FileNotFoundError("compile_module: there is no C++ compiler (g++ or clang++) on PATH "
                                "to link the library with")  # fmt: skip
    if not any(isinstance(f, relax.Function) for f in mod.functions.values()):
        raise ValueError("compile_module: the module has no Relax function")
    lowered = _prepared(mod, chosen, plan, saved)
    if saved is not None:
        done = finished(replay(lowered, saved, chosen), plan, desired, target)
        return _compiled(done, target)
    layouts: Literal["given", "best"] = "best" if plan else "given"
    tried = attempt(lowered, chosen, Options(priority, force, measure, layouts, desired))
    return retried(
        tried,
        lambda done: finished(done, plan, desired, target),
        lambda done: _compiled(done, target, regions_of(tried)),
    )


def retried(
    tried: Attempt,
    finish: Callable[[Dispatched], Dispatched],
    make: Callable[[Dispatched], T],
) -> T:
    """What ``make`` builds of a dispatch; regions that do not build are left out with a warning.

    Args:
        tried: The dispatch, chosen again without what fails.
        finish: Completes the module of a dispatch; an error here is not of a region.
        make: Builds it: the compiler, the linker and the loader may raise.
    """
    while True:
        done = finish(tried.done())
        try:
            out = make(done)
        except Exception as e:
            if not tried.diagnose(e):
                raise
            continue
        warn(done, stacklevel=4)
        return out


def regions_of(tried: Attempt) -> list[Region]:
    """The regions of the last dispatch."""
    return [h.placed.region for h in tried.regions]


def finished(
    done: Dispatched, plan: bool, desired: Desired | str | None, target: Any
) -> Dispatched:
    """With what no backend took as TVM does it best."""
    done = _folded(done)
    return in_own_layouts(done, desired, target) if plan else done


def _compiled(done: Dispatched, target: Any, regions: Sequence[Region] = ()) -> CompiledModule:
    folder = Folder("opinfo-")
    library = folder.path / "model.so"
    try:
        build(done, library, target, regions)
    except BaseException:
        folder.remove()
        raise
    return CompiledModule(library, done, folder)


def _prepared(mod: Any, backends: Sequence[Backend], plan: bool, saved: DispatchPlan | None) -> Any:
    """The lowered module: that of a saved plan may be for other backends."""
    lowered = prepare(mod, backends, relaid=plan)
    if saved is None or saved.module == fingerprint(lowered):
        return lowered
    folded = prepare(mod)
    return folded if saved.module == fingerprint(folded) else lowered


def _folded(done: Dispatched) -> Dispatched:
    """With constants dequantized that no backend has taken as integers."""
    if all(o.op != DEQUANTIZE for o in done.left):
        return done
    return replace(done, module=relax.transform.FoldConstant()(done.module))


def placed(file: Path, path: Path) -> None:
    """Copy a library to a path at once.

    Raises:
        OSError: The folder does not exist, or cannot be written.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}")
    with replacing(path) as part:
        shutil.copyfile(file, part)
        part.chmod(0o755)


def build(
    done: Dispatched, library: Path, target: Any = "llvm", regions: Sequence[Region] = ()
) -> None:
    """Compile a dispatched module and load it once, so that what is missing is found now.

    Raises `Miscalled` where one of ``regions`` is called with what it does not take.
    """
    device = tvm.cpu()
    if on_gpu(target):
        from .backends.nvidia.tvm_schedules import compiled

        device = tvm.cuda()
        made = compiled(done.module, target, fuse)
    else:
        made = executable(fuse(done.module), target)
    stage("linking")
    made.export_library(str(library), fcompile=shared, options=[*OPTIONS, *done.options])
    if done.taken:
        check_calls(tried(str(library), device), regions)
    else:
        relax.VirtualMachine(tvm.runtime.load_module(str(library)), device)


def on_gpu(target: Any) -> bool:
    """Whether code for this target runs on an NVIDIA GPU."""
    return bool(tvm.target.Target(target).kind.name == "cuda")
