"""Hand regions of a lowered module to backends: match, choose, convert, partition."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from ...analysis.support.progress import stage
from ...layout.search.constraints import Desired
from ..backend.backend import Backend
from ..backend.catalog import given, unusable
from ..backend.guarded_calls import guarded
from ..matching.force import CannotForce, forced_ops
from ..matching.lowered import Lowered, read
from ..matching.request import Asked
from ..patterns.failure import Failure
from .dispatched import Dispatched, Taken
from .retry import Attempt
from .with_layouts import in_best_layouts

if TYPE_CHECKING:
    from ..measure import Measure
    from ..measure.costs import Costing


def dispatch(
    mod: Any,
    backends: Sequence[str | Backend],
    priority: Mapping[str, int] | None = None,
    *,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
    layouts: Literal["given", "best"] = "given",
    desired: Desired | str | None = None,
) -> Dispatched:
    """Assign each operator of a lowered module to the best backend that takes it.

    A backend that is not available, or whose code fails, is left out with a warning; its operators
    go to the next backend or to TVM.

    Args:
        mod: A Relax module after ``LegalizeOps``; it is not changed.
        backends: Names or `Backend` objects.
        priority: The class of each backend, higher first; 3 by default. TVM's own code is in class
            1: a backend below that takes nothing.
        force: Operators that must go to one backend: ``{"nn.conv2d": "onednn"}``, or to one of its
            patterns, ``"onednn.conv"``.
        measure: Measure the code of all matches and TVM's code for the same operators. Candidates
            that do not run or are wrong are excluded. Where backend and TVM are in one class, as
            all are without `priority`, the faster one wins.
        layouts: ``"best"`` chooses layouts in the same problem, among those that backends want.
        desired: With ``layouts="best"``, the layouts that operators must have, as for
            `plan_layout`.

    Returns:
        The module, what became of each operator, and a plan to repeat this.

    Raises:
        CannotForce: An operator cannot go where `force` says.
        TypeError: An argument has another type.
        ValueError: An argument does not fit the others.
    """
    options = Options(priority, force, measure, layouts, desired)
    done = attempt(mod, backends, options).done()
    warn(done)
    return done


def warn(done: Dispatched, stacklevel: int = 3) -> None:
    """A warning for each failure."""
    for f in done.failed:
        warnings.warn(str(f), stacklevel=stacklevel)


@dataclass(frozen=True)
class Options:
    """How to dispatch; the fields are those arguments of `dispatch`."""

    priority: Mapping[str, int] | None = None
    force: Mapping[str, str] | None = None
    measure: Measure | None = None
    layouts: Literal["given", "best"] = "given"
    desired: Desired | str | None = None


def attempt(mod: Any, backends: Sequence[str | Backend], options: Options) -> Attempt:
    """What `dispatch` does, to be done again without regions that do not build."""
    priority, force, measure = options.priority, options.force, options.measure
    layouts, desired = options.layouts, options.desired
    if layouts not in ("given", "best"):
        raise ValueError(f"dispatch: layouts must be 'given' or 'best', got {layouts!r}")
    if desired and layouts == "given":
        raise ValueError("dispatch: desired layouts need layouts='best'")
    _check(priority, force)
    failures: list[Failure] = []
    named = [guarded(b, failures) for b in given(backends)]
    classes = {b.name: (priority or {}).get(b.name, 3) for b in named}
    unknown = set(priority or {}) - {*classes, "tvm"}
    if unknown:
        raise ValueError(f"priority: {', '.join(sorted(unknown))} is not among the backends")
    lowered = read(mod, "dispatch")
    forced = forced_ops(lowered.ops, lowered.infos, force or {}, named)
    needed = {f.backend for f in forced.values()}
    floor = (priority or {}).get("tvm", 3 if measure is not None and not priority else 1)
    usable = [b for b in named if (classes[b.name] >= floor or b.name in needed)
              and _usable(b, needed, failures)]  # fmt: skip
    below = {b.name for b in usable if classes[b.name] < floor}
    if measure is not None:
        classes["tvm"] = floor
    here, relaid, asked = lowered, None, Asked(classes, forced, below)
    if layouts == "best":
        stage("planning layouts")
        relaid = in_best_layouts(lowered, usable, asked, desired, measure)
        here = read(relaid.module, "dispatch", lowered.analyse)
        asked = replace(asked, forced=forced_ops(here.ops, here.infos, force or {}, named))
    costing = None if measure is None else _costing(here, usable, measure)
    return Attempt(lowered, here, relaid, asked, usable, costing, failures)


def _check(priority: Mapping[str, int] | None, force: Mapping[str, str] | None) -> None:
    """Raises ``TypeError`` unless they are mappings of the right things."""
    asked: tuple[tuple[str, Any, type, str], ...] = (
        ("priority", priority, int, "a number"),
        ("force", force, str, "BACKEND or BACKEND.PATTERN"),
    )
    for name, value, kind, told in asked:
        if not isinstance(value, (Mapping, NoneType)):
            raise TypeError(f"{name}: expected a mapping, got {value!r}")
        for k, v in (value or {}).items():
            if not isinstance(v, kind):
                raise TypeError(f"{name}[{k!r}]: expected {told}, got {v!r}")


def _usable(b: Backend, needed: Collection[str], failures: list[Failure]) -> bool:
    reason = unusable(b)
    if reason is not None and b.name in needed:
        raise CannotForce(f"{b.name} is not available: {reason}")
    if reason is not None:
        failures.append(Failure(b.name, "available", reason))
    return reason is None


def _costing(lowered: Lowered, backends: Sequence[Backend], measure: Measure) -> Costing:
    from ..measure.costs import Costing

    return Costing(lowered.ops, lowered.infos, backends, measure)


__all__ = ["Dispatched", "Taken", "attempt", "dispatch", "given", "warn"]
