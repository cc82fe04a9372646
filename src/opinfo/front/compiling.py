"""`opinfo.compile`: compile a model with static or symbolic shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax

from ..analysis.support.garbage import rare_collections
from ..byoc.backend.backend import Backend
from ..byoc.building.build_library import on_gpu
from ..byoc.building.read_target import compile_target
from ..byoc.calibration.calibration import Calibration
from ..byoc.codegen.host_target import native_target
from ..byoc.compile import SharedWork, compile_module
from ..byoc.dispatching.choice.plan_file import DispatchPlan
from ..byoc.dispatching.dispatch_request import DispatchOptions
from ..byoc.measure import Measure
from ..frontend.checks.tuple_operands import with_tuple_operands
from ..frontend.sizes.checked_sizes import checked_sizes
from ..frontend.source_file import SourceFile, source_of
from ..jit.arguments.checked_bounds import checked_bounds
from ..jit.arguments.index_checks import checked_indices
from ..jit.arguments.signature import Signature
from ..jit.config.strategy import Config, Dim, Strategy
from ..layout.rewrite.func_proofs import CheckedBounds, FuncProofs
from ..layout.search.constraints import Desired
from ..verify.trial_sizes import ComparedModule, sized_calls
from .backend_choice import BackendChoice, choose_backends
from .compiled_model import Compiled
from .fastest import fastest
from .file_builds import FileBuilds, replayed
from .models import as_module
from .race import is_static, rivals
from .race import race as raced
from .settings.narrow_floats import refuse_narrow_floats
from .settings.shape_settings import Extents, configured


@rare_collections()
def compile(
    model: Any,
    backends: Sequence[str | Backend] | None = None,
    *,
    target: Any = None,
    shapes: Config | Strategy | str | Mapping[str, Dim | Extents] | None = None,
    wants: Desired | str | None = None,
    priority: Mapping[str, int] | None = None,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
    plan: DispatchPlan | None = None,
    calibration: Calibration | None = None,
    race: bool = True,
) -> Compiled:
    """Compile a model, with backends where they are faster than TVM's code.

    Args:
        model: A Relax module, which is not modified, or a file that `opinfo.load` reads.
        backends: Names or `Backend` objects, which take what they can, as in
            `opinfo.byoc.dispatch`. By default, the least expected cost decides between all
            installed backends for CPUs and TVM's code; on a GPU, ``cudnn`` and ``cublaslt`` take
            what they can where they are installed; with `shapes`, TVM's code is used, but for
            functions with caches, where the default backends are raced with it. ``[]`` uses only
            TVM's code.
        target: TVM's target, such as ``"llvm -mcpu=haswell -num-cores=2"`` or a dict; by default
            this CPU, with one thread. ``"cuda"`` is the GPU of this machine; without it, name one:
            ``"nvidia/nvidia-h100"``, ``"cuda -arch=sm_90"``. `Compiled.report` names the target.
        shapes: How to compile symbolic functions that no backend takes: ``"jit"``, ``"aot"``,
            `jit.Aot`, a `jit.Config`; or dimensions by name, ``{"n": 8, "m": (1, 512), "k": Dim(1,
            64, likely=(8,))}``, which means ``"jit"`` with these dimensions (for aot:
            ``jit.Config("aot", dims={...})``). The default is one kernel for all shapes.
        wants: Layouts that operators must have, as for `opinfo.plan`. By default, the layouts that
            backends prefer are candidates.
        priority: Priority classes of backends; see `opinfo.byoc.dispatch`.
        force: Operators to send to one backend; see `opinfo.byoc.dispatch`.
        measure: Choose by measured times; see `opinfo.byoc.Measure`. The result is compared with
            the choice by expected costs, and the faster one is returned.
        plan: The dispatch plan of an earlier call, ``compiled.dispatched.plan``, to replay.
        calibration: What kinds of work cost; by default that of this machine, which
            ``opinfo calibrate`` measures, or the nearest that opinfo ships.
        race: If opinfo chooses the backends, also build the model for each backend that takes
            whole subgraphs alone, call all builds in turns on this machine with random inputs, and
            return the fastest. If the model is what `opinfo.load` returned for an ONNX file,
            unchanged, runtimes that read ONNX also get the file itself; such a build is kept only
            if a build of the module has its outputs. With symbolic sizes, builds are called at
            several (`opinfo.verify.trial_sizes`): a build is kept only if it is nowhere slower than
            that by expected costs by more than 5 %. Models with symbolic sizes for a GPU, and those
            whose weights are of few bits by group, are not raced.

    Returns:
        The compiled model.

    Raises:
        FrontendError: The file cannot be read.
        PlanRefused: The plan does not fit the model or the backends.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid or contradicts another; or the model has numbers of
            float8, and the target is a CPU.
        FileNotFoundError: No C++ compiler is installed.
        RuntimeError: The C++ compiler fails, or what it made cannot be loaded.
        OSError: Temporary files cannot be written.
        NoGpu: Costs are to be measured on a GPU of this machine, and none is visible.
    """
    mod = as_module(model, "compile")
    source = source_of(mod)
    tvm_target = native_target() if target is None else compile_target(target)
    if measure is not None:
        measure.check()
    mod, config = configured(checked_sizes(with_tuple_operands(mod)), shapes)
    signatures = _signatures(mod)
    if not on_gpu(tvm_target):
        refuse_narrow_floats(mod)
        mod = checked_indices(mod)
    request = _Request(mod, tvm_target, signatures, backends, wants, priority, force, measure, plan,
                       calibration)  # fmt: skip
    return request.static(source, race) if config is None else request.with_shapes(config, race)


@dataclass(frozen=True)
class _Request:
    """What `compile` is asked for: the checked module, and its arguments."""

    mod: tvm.IRModule
    target: Any
    signatures: Mapping[str, Signature]
    backends: Sequence[str | Backend] | None
    wants: Desired | str | None
    priority: Mapping[str, int] | None
    force: Mapping[str, str] | None
    measure: Measure | None
    plan: DispatchPlan | None
    calibration: Calibration | None

    def with_shapes(self, config: Config, race: bool) -> Compiled:
        """Compile symbolic functions as a configuration says.

        If functions store rows in caches, and opinfo chooses, builds with TVM's code and with the
        default backends are raced.
        """
        from ..jit.config.named_dims import resolved

        choose = partial(choose_backends, calibration=self.calibration, target=self.target)
        ours = self.shaped(config, choose(self._named(config), self.priority))
        cached = any(signature.caches for signature in self.signatures.values())
        free = self.measure is None and self.plan is None and self._is_free()
        subject = ComparedModule(self.mod, resolved(config, self.mod).dims)
        if not (race and free and cached and sized_calls(subject)):
            return ours
        choice = choose(None, None, few_bits=True)
        builds = {"of TVM's code": ours, "by expected costs": self.shaped(config, choice)}
        return fastest(builds, subject)

    def _named(self, config: Config) -> Sequence[str | Backend]:
        """Return the named backends; none are TVM's code alone, which a library is not."""
        from ..jit.config.strategy import Library, strategy

        if self.backends or self.backends is None:
            return self.backends or ()
        choices = map(strategy, (config.default, *config.by_op.values()))
        return ("tvm",) if any(isinstance(c, Library) for c in choices) else ()

    def _checked(self) -> CheckedBounds | None:
        """Return the bounds of parameters that each call checks."""
        return None if on_gpu(self.target) else checked_bounds(self.mod, self.signatures)

    def _is_free(self) -> bool:
        """Return whether opinfo chooses the backends."""
        return all(x is None for x in (self.backends, self.priority, self.force, self.wants))

    def shaped(self, config: Config, choice: BackendChoice) -> Compiled:
        """Compile symbolic functions as a configuration says, with a choice of backends."""
        from ..jit.compile.compile_shapes import compile_shapes  # it imports all schedules

        backends = choice.backends
        measure = self.measure and self.measure.anew()
        options = DispatchOptions(choice.priority, self.force, measure,
                          "best" if backends else "given", self.wants,
                          choice.calibration, FuncProofs(self._checked()))  # fmt: skip
        shaped = compile_shapes(self.mod, config, self.target, backends=backends, options=options,
                                saved=self.plan)  # fmt: skip
        return Compiled(self.target, shaped, self.signatures)

    def static(self, source: SourceFile | None, race: bool) -> Compiled:
        """Compile one kernel for all shapes: the plan's build, or the fastest one."""
        shared = SharedWork(self.mod, self._checked())
        few_bits = shared.prepare.few_bits
        choice = choose_backends(self.backends, self.priority, self.calibration, self.target,
                                 few_bits)  # fmt: skip
        files, known = None, is_static(self.signatures)
        if source is not None and known and not on_gpu(self.target):
            files = FileBuilds(source, self.mod, self.target, self.signatures, choice.costs, shared)
        if self.plan is not None and self.plan.file:
            return replayed(files, self.plan)
        build = partial(self.build, shared)
        if self.plan is not None:
            return build(choice, self.measure, True, False)
        called = bool(sized_calls(ComparedModule(self.mod)))
        raceable = (
            race and called and self._is_free() and not few_bits
        )  # runtimes would store them in full
        names = rivals(self.target, self.signatures) if raceable else []
        return raced(build, choice, self.measure, names, self.mod, files, known)

    def build(
        self, shared: SharedWork, choice: BackendChoice, measure: Measure | None,
        layouts: bool, runs_elsewhere: bool,
    ) -> Compiled:  # fmt: skip
        """Build the module for a choice of backends."""
        library = compile_module(self.mod, choice.backends, self.wants, priority=choice.priority,
                                 force=self.force, saved=self.plan, measure=measure,
                                 target=self.target, plan=layouts, calibration=choice.calibration,
                                 shared=shared, runs_elsewhere=runs_elsewhere,
                                 whole=choice.whole)  # fmt: skip
        by_costs = self.plan is None and (self.backends is None or self.calibration is not None)
        return Compiled(self.target, library, self.signatures, choice.costs if by_costs else None)


def _signatures(mod: tvm.IRModule) -> dict[str, Signature]:
    """Return the signature of each exported function."""
    return {
        gvar.name_hint: Signature.of(func, gvar.name_hint)
        for gvar, func in mod.functions_items()
        if isinstance(func, relax.Function) and "global_symbol" in (func.attrs or {})
    }
