"""Run builds of a model in turns, and choose the fastest of those whose outputs agree.

Builds with symbolic sizes are called at several sizes. The fastest one has the least geometric
mean, and at no size is it slower than the first one by more than some per cent.

If no other build has the outputs of a build, a library may be wrong, and the build is not kept.
Where values are rounded to steps, builds may differ by some steps: see `verification.STEPS`. A
build of the file that the model was loaded from must agree with a build of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from ..analysis.support.progress import stage
from ..analysis.support.warn import warn
from ..byoc.building.build_library import on_gpu
from ..jit.arguments.signature import Signature
from ..jit.config.named_dims import first_places
from ..verify.compared_runs import counted, milliseconds, nowhere_slower, spelled
from ..verify.free_memory import fit
from ..verify.timing_process import CPU, GPU
from ..verify.trial_inputs import trial_calls, undrawable
from ..verify.trial_runs import TrialProcess, TrialRun, trial_runs
from ..verify.trial_sizes import ComparedModule, sized_calls
from ..verify.verification import difference, tolerance_of
from .compiled_model import Compiled

#: A later build replaces an earlier one only if it takes at most this part of its time: times are
#: noisy.
PART = 0.98


def run_builds(
    builds: Mapping[str, Compiled], model: Any, process: TrialProcess | None = None
) -> dict[str, TrialRun]:
    """Run builds in turns. Raises ``RuntimeError`` if the process fails."""
    if not builds:
        return {}
    stage(f"running {len(builds)} builds")
    calls = trial_calls(model)
    target = next(iter(builds.values())).target
    threads, device = int(target.attrs.get("num-cores") or 1), GPU if on_gpu(target) else CPU
    runs = trial_runs([b.library for b in builds.values()], calls, threads, process, device)
    return dict(zip(builds, runs, strict=True))


def least(runs: Mapping[str, TrialRun], name: str) -> float:
    """Return the least milliseconds of a build; infinite if it has no times."""
    return milliseconds(counted(runs)[name]) if name in runs else inf


def run_or_rebuild(
    builds: Mapping[str, Compiled], again: Callable[[str, str], Compiled | None], model: Any,
    process: TrialProcess | None = None,
) -> tuple[dict[str, Compiled], dict[str, TrialRun]]:  # fmt: skip
    """Run builds in turns; those that do not load are replaced.

    If builds do not fit into memory together, or the process fails, each runs in its own process.

    Args:
        builds: The builds by name.
        again: Makes a build again, without the regions that do not load, from its name and the
            error of loading it; None if it cannot.
        model: The module that all were built from.
        process: Where to run them.

    Raises:
        RuntimeError: The process fails again.
    """
    try:
        runs = (
            run_builds(builds, model, process) if _fit(builds, process) else _apart(builds, model)
        )
    except RuntimeError as error:  # any of them may have ended the process
        lone = {name: TrialRun((), (), False, str(error)) for name in builds}
        runs = _apart(builds, model) if len(builds) > 1 else lone
    failed = {name: run.error for name, run in runs.items() if not run.loaded}
    if not failed:
        return dict(builds), runs
    made = {name: again(name, failed[name]) if name in failed else built
            for name, built in builds.items()}  # fmt: skip
    mended = {name: built for name, built in made.items() if built is not None}
    return mended, run_builds(mended, model, process)


def _fit(builds: Mapping[str, Compiled], process: TrialProcess | None) -> bool:
    """Return whether builds fit into memory, if need be after the process has ended."""
    libraries = [build.library for build in builds.values()]
    if process is not None and not fit(libraries):
        process.close()
    return len(libraries) < 2 or fit(libraries)


def _apart(builds: Mapping[str, Compiled], model: Any) -> dict[str, TrialRun]:
    """Run each build in a process of its own, so that a failure affects only this build."""
    runs: dict[str, TrialRun] = {}
    for name, build in builds.items():
        try:
            runs |= run_builds({name: build}, model)
        except RuntimeError as error:
            runs[name] = TrialRun((), (), False, str(error))
    return runs


def fastest(
    builds: Mapping[str, Compiled], model: Any, others: Mapping[str, TrialRun] | None = None,
    process: TrialProcess | None = None, again: Callable[[str, str], Compiled | None] | None = None,
    files: Collection[str] = (),
) -> Compiled:  # fmt: skip
    """Return the fastest build whose outputs another build has too; `Compiled.kept` names it.

    Builds with the same plan run once. If the process fails, the result is the first build that is
    not of the model's file.

    Args:
        builds: Builds of the model by the words that describe their choice.
        model: The module that all were built from.
        others: Runs of other builds, to compare outputs with. If all builds are among them,
            nothing runs again: they ran in turns.
        process: Where to run them; by default in a new process.
        again: See `run_or_rebuild`; by default builds that do not load have no times.
        files: Those of `builds` that are of the model's file; at least one is not.
    """
    different = _different(builds)
    first = next(name for name in different if name not in files)
    signatures = different[first].signatures
    if len(different) == 1 or not callable_at_trial_sizes(signatures):
        if again is None:
            return different[first]
        ran = [name for name in builds if others and name in others and others[name].loaded]
        rebuilt = builds[ran[0]] if ran else again(first, "")
        assert rebuilt is not None  # only builds of the file may be dropped
        return rebuilt
    try:
        if others and all(name in others for name in different):
            runs = {name: others[name] for name in different}
        elif again is None:
            runs = run_builds(different, model, process)
        else:
            different, runs = run_or_rebuild(different, again, model, process)
    except RuntimeError as error:  # such as code that crashes
        return replace(different[first], kept=f"kept the choice {first}, untimed: {error}")
    known = counted({**(others or {}), **runs})
    runs = {name: known[name] for name in runs}
    trusted = _trusted(runs, known, different, files)
    if not trusted:
        return replace(different[first], kept=f"kept the choice {first}: all builds fail")
    best = _best(trusted, runs)
    alone = [name for name in files if name in runs and runs[name].times and name not in trusted]
    times = [f"{spelled(runs[name])} {name}{', whose outputs differ' if name in alone else ''}"
             for name in different if name != best]  # fmt: skip
    at = _calls(model) if runs[best].further else ""
    kept = f"kept the choice {best}: {spelled(runs[best])}{at}; {', '.join(times)}"
    return replace(different[best], kept=kept)


def _best(names: Sequence[str], runs: Mapping[str, TrialRun]) -> str:
    """Return the fastest build that is not slower than the first one at any size."""
    first, *rest = names
    best = first
    for name in rest:
        if (least(runs, name) <= PART * least(runs, best)
                and nowhere_slower(runs[name], runs[first])):  # fmt: skip
            best = name
    return best


def _calls(model: Any) -> str:
    """Format the calls whose times are listed, and the dimensions that have these sizes."""
    subject = model if isinstance(model, ComparedModule) else ComparedModule(model)
    calls, places = sized_calls(subject), first_places(subject.mod)
    names = dict.fromkeys(name for call in calls for name in call.sizes if name in places)
    where = ", ".join(f"{name} is {places[name]}" for name in names)
    return f" with {' and '.join(map(str, calls))}{f' ({where})' if where else ''}"


def callable_at_trial_sizes(signatures: Mapping[str, Signature]) -> bool:
    """Return whether trial runs can call each function."""
    return bool(signatures) and not any(map(undrawable, signatures.values()))


def agreeing(
    runs: Mapping[str, TrialRun], known: Mapping[str, TrialRun], builds: Mapping[str, Compiled],
    files: Collection[str] = (),
) -> list[str]:  # fmt: skip
    """Return the builds that ran and whose outputs another one has.

    Args:
        runs: Runs of builds.
        known: These runs and others.
        builds: The builds that ran, which say how results are rounded.
        files: Builds of the model's file. They do not confirm one another: both may depart from
            the module in the same way.
    """
    tolerance = max((tolerance_of(build.dispatched) for build in builds.values()), default=0.0)
    known = counted({**known, **runs})
    return [
        name
        for name, run in ((n, known[n]) for n in runs)
        if run.times
        and any(_same(run, other, tolerance) for n, other in known.items()
                if n != name and not (name in files and n in files))
    ]  # fmt: skip


def _trusted(
    runs: Mapping[str, TrialRun], known: Mapping[str, TrialRun], builds: Mapping[str, Compiled],
    files: Collection[str],
) -> list[str]:  # fmt: skip
    """Return the builds that ran and whose outputs another one has.

    If no two agree, the result is all builds that ran, except those of the model's file.
    """
    ran = [name for name, run in runs.items() if run.times]
    agree = agreeing(runs, known, builds, files)
    for name in ran if agree else ():
        if name not in agree and name not in files:
            warn(f"compile: the build {name} is left out, as its outputs differ from all others")
    if not agree and len([name for name in known if name not in files]) > 1:
        warn("compile: the outputs of all builds differ; either rounding decides in this model, or "
             "a library is wrong: compare them with --verify")  # fmt: skip
    return agree or [name for name in ran if name not in files]


def _same(a: TrialRun, b: TrialRun, tolerance: float) -> bool:
    """Return whether two runs have the same outputs up to rounding, of each call."""
    if not b.times or len(a.outputs) != len(b.outputs) or len(a.further) != len(b.further):
        return False
    pairs = zip(a.outputs, b.outputs, strict=True)
    first = all(x.shape == y.shape and difference(x, y) <= tolerance for x, y in pairs)
    further = zip(a.further, b.further, strict=True)
    return first and all(_same(x, y, tolerance) for x, y in further)


def _different(builds: Mapping[str, Compiled]) -> dict[str, Compiled]:
    """Return the builds without those whose plan is that of an earlier one."""
    out: dict[str, Compiled] = {}
    for name, build in builds.items():
        plan = None if build.dispatched is None else build.dispatched.plan
        if plan is None or all(b.dispatched is None or b.dispatched.plan != plan
                               for b in out.values()):  # fmt: skip
            out[name] = build
    return out
