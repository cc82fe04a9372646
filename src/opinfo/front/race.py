"""Build a model several times, run all builds on this machine, and keep the fastest one.

Expected costs compare single operators. They cannot tell whether a library runs a whole graph
faster than the sum of its operators. So a build is made for each backend that takes whole subgraphs
alone, and timed. The times correct the backend's expected costs for this model, and the mixed
choice uses the corrected costs.

If the module was loaded from an ONNX file, runtimes also get the file itself: they may have faster
kernels for the operators that its author wrote than for those of the imported module.

A module with symbolic sizes is called at several sizes, such as those of a step and of a prompt of
a language model; see `verify.trial_sizes`. Expected costs are for other sizes, so times do not
correct them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from ..byoc.backend.catalog import find
from ..byoc.building.build_library import on_gpu
from ..byoc.compile import SameAsWhole
from ..byoc.compile_file import FileRefused
from ..byoc.measure import Measure
from ..byoc.patterns.failure import one_line
from ..frontend import FrontendError
from ..jit.arguments.signature import Param, Signature
from ..verify.trial_runs import TrialProcess, TrialRun
from .backend_choice import BackendChoice, installed
from .compiled_model import Compiled
from .fastest import PART, agreeing, callable_at_trial_sizes, fastest, least, run_or_rebuild
from .file_builds import FileBuilds
from .finalists import MIXED, WITHOUT_RUNTIMES, seconds, suffices

Build = Callable[[BackendChoice, Measure | None, bool, bool], Compiled]
#: The share of operations beyond which a choice is raced with one without runtimes.
MOST = 0.8
ALONE, EXPECTED, MEASURED = "of {} alone", "by expected costs", "by measured costs"
FILE = "of {} with the model's file"


def rivals(target: Any, signatures: Mapping[str, Signature]) -> list[str]:
    """Return the backends to build alone: the installed ones that take whole subgraphs.

    The list is empty if the model has several functions, no parameters or parameters that cannot
    have random values, or if it has symbolic sizes and is for a GPU.
    """
    params = signatures["main"].params if list(signatures) == ["main"] else ()
    if not params or not callable_at_trial_sizes(signatures):
        return []
    if on_gpu(target) and not is_static(signatures):
        return []
    return [name for name in installed(target) if find(name).coarse]


def is_static(signatures: Mapping[str, Signature]) -> bool:
    """Return whether all parameters are tensors of static shapes."""
    return all(map(_static, (p for s in signatures.values() for p in s.params)))


def _static(param: Param) -> bool:
    """Return whether a parameter is a tensor of a static shape."""
    return param.kind == "tensor" and param.shape is not None and all(
        isinstance(extent, int) for extent in param.shape)  # fmt: skip


def race(
    build: Build, choice: BackendChoice, measure: Measure | None, names: Sequence[str], model: Any,
    files: FileBuilds | None = None, static: bool = True,
) -> Compiled:  # fmt: skip
    """Build a model for a choice and for single backends, and return the fastest right build.

    Args:
        build: Builds the model for a choice; the other arguments say how to measure, whether to
            plan layouts, and whether the library will be run in another process. A runtime that
            takes the whole graph plans its own layouts.
        choice: The choice.
        measure: How to measure, if the choice is to be measured.
        names: Backends to build alone.
        model: The module.
        files: Builds of the file that the module was loaded from, or None. One of them is kept
            only if a build of the module has the same outputs.
        static: Whether all sizes are known.
    """
    if measure is None and not names:
        return build(choice, None, True, False)
    with TrialProcess() as process:
        raced = _Race(build, model, process, files, static)
        return raced.with_refusals(raced.winner(choice, measure, names))


class _Race:
    """Builds of a model by name, and how each is made."""

    def __init__(
        self, build: Build, model: Any, process: TrialProcess, files: FileBuilds | None,
        static: bool,
    ) -> None:  # fmt: skip
        self.build, self.model, self.process, self.files = build, model, process, files
        self.static = static
        #: The runtime of each build of the file, by the build's name.
        self.readers: dict[str, str] = {}
        #: The runtime of each build of the module for one runtime alone, by the build's name.
        self.runtimes: dict[str, str] = {}
        #: Why a runtime has no build of the file.
        self.refused: dict[str, str] = {}
        self.made: dict[str, tuple[BackendChoice, Measure | None, bool, bool]] = {}
        self.builds: dict[str, Compiled] = {}
        self.runs: dict[str, TrialRun] = {}

    def winner(
        self, choice: BackendChoice, measure: Measure | None, names: Sequence[str]
    ) -> Compiled:
        kept = self.alone(choice, names)
        builds, runs = self.builds, self.runs
        expected = seconds(builds)
        if measure is None and expected > MIXED and suffices(builds, runs, self.readers):
            return _without(self.fastest(kept), expected, EXPECTED)
        if self.static:
            choice = _corrected(choice, {n: builds[ALONE.format(n)] for n in names}, runs)
        if measure is not None:
            self.add(MEASURED, choice, measure)
        same = self.add_mixed(choice, kept, measure)
        finalists = [n for n in (MEASURED, EXPECTED) if n in builds] + _until_agreed(
            kept, runs, builds, self.readers
        )
        if same is None and self.static and not _taken_by_one(builds[EXPECTED], names):
            return self.fastest(finalists)
        others = [b for b in choice.backends if b not in names]
        words = f"of {' and '.join(map(str, others))} alone"
        costly = measure is None and expected > WITHOUT_RUNTIMES
        if not costly:
            self.add(words, replace(choice, backends=others), quiet=True)
            finalists.append(words)
        if same is not None and all(n in self.readers or n == words for n in finalists):
            finalists += [n for n in kept if n not in self.readers][:1]  # of the module
        winner = self.fastest(finalists if len(finalists) > 1 else kept)
        winner = _without(winner, expected, words) if costly else winner
        return winner if same is None else _with(winner, f"{EXPECTED}, {same} would have all")

    def add_mixed(
        self, choice: BackendChoice, kept: Sequence[str], measure: Measure | None
    ) -> str | None:
        """Make the build by expected costs, unless a runtime alone is the same; name that runtime.

        It is made in any case if no build has the outputs of the fastest one yet.
        """
        whole: dict[str, tuple[str, ...]] = {}
        known = {name: self.builds[name] for name in kept}
        if (
            measure is None
            and kept
            and kept[0] in agreeing(self.runs, self.runs, known, self.readers)
        ):
            whole = {self.runtimes[name]: tuple(op.op for op in build.dispatched.left)
                     for name, build in known.items()
                     if name in self.runtimes and self.runs[name].times and build.dispatched
                     }  # fmt: skip
        try:
            self.add(EXPECTED, replace(choice, whole=whole), quiet=measure is not None)
        except SameAsWhole as same:
            return same.backend
        return None

    def alone(self, choice: BackendChoice, names: Sequence[str]) -> list[str]:
        """Build and run single backends; return the builds' names, the fastest first."""
        for name in names:
            single = BackendChoice([name], None, choice.costs)
            self.add(ALONE.format(name), single, layouts=False, quiet=True)
            self.runtimes[ALONE.format(name)] = name
        self.add_files(names)
        with suppress(RuntimeError):  # the last run says why, if it fails too
            self.builds, self.runs = run_or_rebuild(
                self.builds, self.again, self.model, self.process)  # fmt: skip
        for build, runtime in self.readers.items():
            run = self.runs.get(build)
            if build in self.builds and run is not None and not run.times:
                self.refused[runtime] = run.error or "its first call fails"
        part = {name: PART for name in self.readers}  # as where a later build replaces an earlier
        return sorted(self.builds, key=lambda n: least(self.runs, n) / part.get(n, 1.0))

    def add_files(self, names: Sequence[str]) -> None:
        """Make the builds of the file."""
        if self.files is None:
            return
        for name in self.files.runtimes(names):
            self.readers[FILE.format(name)] = name
            try:
                self.builds[FILE.format(name)] = self.files.build(name, runs_elsewhere=True)
            except (FileRefused, FrontendError) as error:
                self.refused[name] = str(error)
            except Exception as error:  # of the compiler, or of a library
                self.refused[name] = one_line(error)
        self.files.release()

    def with_refusals(self, compiled: Compiled) -> Compiled:
        """Add to `Compiled.kept` which runtimes did not get the file, and why."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.refused.items():
            by_reason.setdefault(reason, []).append(name)
        lines = [f"without the model's file in {' and '.join(names)}: {reason}"
                 for reason, names in by_reason.items()]  # fmt: skip
        return replace(compiled, kept="; ".join(filter(None, (compiled.kept, *lines))))

    def add(
        self, name: str, choice: BackendChoice, measure: Measure | None = None,
        layouts: bool = True, quiet: bool = False,
    ) -> Compiled:  # fmt: skip
        """Make a build, without the warnings if it may not be kept."""
        self.made[name] = choice, measure, layouts, quiet
        self.builds[name] = self._make(name, runs_elsewhere=True)
        return self.builds[name]

    def again(self, name: str, error: str) -> Compiled | None:
        """Make a build again, without the regions that do not load; None for the file."""
        if name in self.readers:
            self.refused[self.readers[name]] = error
            return None
        return self._make(name, runs_elsewhere=False)

    def fastest(self, names: Sequence[str]) -> Compiled:
        builds = {name: self.builds[name] for name in names}
        return fastest(builds, self.model, self.runs, self.process, self.again, self.readers)

    def _make(self, name: str, runs_elsewhere: bool) -> Compiled:
        choice, measure, layouts, quiet = self.made[name]
        with warnings.catch_warnings():
            if quiet:
                warnings.simplefilter("ignore")
            return self.build(choice, measure, layouts, runs_elsewhere)


def _until_agreed(
    names: Sequence[str], runs: Mapping[str, TrialRun], builds: Mapping[str, Compiled],
    files: Collection[str] = (),
) -> list[str]:  # fmt: skip
    """Return builds up to the first one whose outputs another build has too.

    A build whose outputs no other build has may not be kept.

    Args:
        names: Builds of single runtimes, the fastest first.
        runs: Their runs.
        builds: These builds.
        files: The builds of the model's file.
    """
    agreed = agreeing(runs, runs, {name: builds[name] for name in names}, files)
    count = next((k + 1 for k, name in enumerate(names) if name in agreed), len(names))
    return list(names[:count])


def _without(compiled: Compiled, expected: float, words: str) -> Compiled:
    """Add to `Compiled.kept` a choice that was not built, as it would take too long."""
    return _with(compiled, f"{words}, which takes about {expected:.0f} s")


def _with(compiled: Compiled, reason: str) -> Compiled:
    """Add to `Compiled.kept` a choice that was not built, and why."""
    kept = "; ".join(filter(None, (compiled.kept, f"not built: {reason}")))
    return replace(compiled, kept=kept)


def _taken_by_one(compiled: Compiled, names: Sequence[str]) -> bool:
    """Return whether a choice leaves almost everything to one of these backends."""
    dispatched = compiled.dispatched
    if dispatched is None or not dispatched.total:
        return False
    return any(sum(t.flops for t in dispatched.taken if t.backend == name)
               > MOST * dispatched.total for name in names)  # fmt: skip


def _corrected(
    choice: BackendChoice, builds: Mapping[str, Compiled], runs: Mapping[str, TrialRun]
) -> BackendChoice:
    """Return a choice whose costs are scaled to the times of the builds for single backends."""
    factors = {}
    for name, compiled in builds.items():
        milliseconds, dispatched = least(runs, ALONE.format(name)), compiled.dispatched
        taken = () if dispatched is None else dispatched.taken
        expected = sum(dict(t.costs)[name].microseconds for t in taken if name in dict(t.costs))
        if expected and milliseconds < inf and dispatched is not None and not dispatched.left:
            factors[name] = milliseconds * 1e3 / expected
    if choice.costs is None or not factors:
        return choice
    return replace(choice, costs=choice.costs.corrected(factors))
