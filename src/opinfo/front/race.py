"""Keep the fastest of several builds of a model, as timed on this machine.

Expected costs compare operators; whether a library runs a whole graph faster than the sum of its
parts, only the graph itself says. So the default choice is raced with the backends that take whole
subgraphs, each alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import tvm

from ..analysis.support.progress import stage
from ..byoc.backend.catalog import find
from ..byoc.measure import Measure
from ..jit.arguments.signature import Param, Signature
from ..verify.time_builds import time_builds
from ..verify.verification import trial_inputs
from .backend_choice import BackendChoice, installed
from .compiled_model import Compiled

Build = Callable[[BackendChoice, Measure | None, bool], Compiled]
#: A later build replaces an earlier one only if it takes at most this part of its time: times are
#: noisy.
PART = 0.98


def alone(target: Any, signatures: Mapping[str, Signature]) -> list[str]:
    """Return the backends to race alone: the installed ones that take whole subgraphs.

    None are raced if there are several functions, or parameters other than static tensors.
    """
    params = signatures["main"].params if list(signatures) == ["main"] else ()
    if not params or not all(map(_static, params)):
        return []
    return [name for name in installed(target) if find(name).coarse]


def _static(param: Param) -> bool:
    """Return whether a parameter is a tensor of a static shape."""
    return param.kind == "tensor" and param.shape is not None and all(
        isinstance(extent, int) for extent in param.shape)  # fmt: skip


def built(
    build: Build, choice: BackendChoice, measure: Measure | None, rivals: Sequence[str]
) -> dict[str, Compiled]:
    """Return all builds by the words that describe their choice, the preferred one first.

    Args:
        build: Builds the model for a choice; the other arguments say how to measure, and whether to
            plan layouts. A runtime that takes the whole graph plans its own.
        choice: The choice.
        measure: How to measure, if the choice is to be measured.
        rivals: Backends that are built alone.
    """
    builds = {} if measure is None else {"by measured costs": build(choice, measure, True)}
    with warnings.catch_warnings():  # the first build has warned
        if builds:
            warnings.simplefilter("ignore")
        builds["by expected costs"] = build(choice, None, True)
        warnings.simplefilter("ignore")
        for name in rivals:
            single = BackendChoice([name], None, choice.costs)
            builds[f"of {name} alone"] = build(single, None, False)
    return builds


def fastest(builds: Mapping[str, Compiled], model: Any) -> Compiled:
    """Return the build that is fastest on the same inputs, and say so in `Compiled.kept`.

    Builds with the same plan are timed once. If they cannot be timed, the first one is returned.

    Args:
        builds: Builds of the model by the words that describe their choice.
        model: The module of all.
    """
    different = _different(builds)
    first, *others = different
    chosen = different[first]
    if not others or "main" not in chosen.signatures:
        return chosen
    stage(f"comparing {len(different)} builds")
    values = [tvm.runtime.tensor(a) for a in trial_inputs(model, 0)]
    threads = int(chosen.target.attrs.get("num-cores") or 1)
    try:
        times = time_builds([b.library for b in different.values()], values, threads)
    except RuntimeError as error:  # such as code that crashes, which only measuring excludes
        return replace(chosen, kept=f"kept the choice {first}, untimed: {error}")
    least = {n: min(calls, default=inf) for n, calls in zip(different, times, strict=True)}
    best = first
    for name in others:
        if least[name] <= PART * least[best]:
            best = name
    rest = ", ".join(f"{least[name]:.3f} ms {name}" for name in different if name != best)
    return replace(different[best], kept=f"kept the choice {best}: {least[best]:.3f} ms; {rest}")


def _different(builds: Mapping[str, Compiled]) -> dict[str, Compiled]:
    """Return the builds without those whose plan is that of an earlier one."""
    out: dict[str, Compiled] = {}
    for name, build in builds.items():
        plan = None if build.dispatched is None else build.dispatched.plan
        if plan is None or all(b.dispatched is None or b.dispatched.plan != plan
                               for b in out.values()):  # fmt: skip
            out[name] = build
    return out
