"""Hand regions of a lowered module to backends: match, choose, convert, partition."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import tvm_ffi
from tvm import relax

from ..analysis.op_info import OpInfo
from ..layout.graph import Op
from ..layout.report import Report
from ..layout.solve import NoSolution
from ..layout.wants import Desired
from .asked import Asked
from .backend import Backend, Code, find
from .choose import Chosen, Match, choose
from .dispatch_plan import DispatchPlan, PlannedRegion, fingerprint
from .flops import flops
from .force import CannotForce, allowed, forced_ops
from .joint import Relaid, in_best_layouts
from .lowered import Lowered, read
from .partition import Rewritten, partitioned
from .region import Placed, Region, region
from .why import Left, left_behind

if TYPE_CHECKING:
    from .measure import Measure, Timing
    from .measure.costs import Costing


@dataclass(frozen=True)
class Taken:
    """A region that a backend has: the operators in it, and what was matched.

    ``rounds`` says how it rounds elsewhere than op by op, where its converter rearranged it.
    """

    symbol: str
    backend: str
    pattern: str
    ops: tuple[str, ...]
    flops: int
    rounds: str | None = None


@dataclass(frozen=True)
class Dispatched:
    """A module whose regions are calls of backends, what became of each op, how to do it again.

    ``timings``: what was measured to choose them. ``report`` tells of the layouts where they were
    chosen too.
    """

    module: Any
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    options: tuple[str, ...]
    status: str
    plan: DispatchPlan
    total: int = 0
    timings: tuple[Timing, ...] = ()
    report: Report | None = None

    def summary(self) -> str:
        """One line: ``offloaded 57 of 61 ops, 99.2% of FLOPs, onednn 57, tvm 4``.

        Where layouts were chosen too it ends in ``; 2 transforms left``.
        """
        ops = sum(len(t.ops) for t in self.taken)
        by: dict[str, int] = {}
        for t in self.taken:
            by[t.backend] = by.get(t.backend, 0) + len(t.ops)
        share = sum(t.flops for t in self.taken) / self.total if self.total else 0.0
        told = "".join(f", {name} {n}" for name, n in sorted(by.items()))
        moving = None if self.report is None else self.report.after.number
        plural = "" if moving == 1 else "s"
        transforms = "" if moving is None else f"; {moving} transform{plural} left"
        return (f"offloaded {ops} of {ops + len(self.left)} ops, {share:.1%} of FLOPs{told}, "
                f"tvm {len(self.left)}{transforms}")  # fmt: skip


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
    """Give each op of a lowered module to the best backend that takes it.

    ``backends`` are names or objects, ``priority`` their classes (a higher one first; 3 where it is
    not said, TVM's own code is 1: a backend below that takes nothing). A backend that is not
    available, or that fails, is left out with a warning; its ops fall to the next or to TVM.
    ``force`` sends operators to one backend (see :mod:`.force`) and raises :class:`.CannotForce`
    where that cannot be. ``measure`` times the code of all matches, and TVM's for the same ops
    (see :class:`.Measure`): what does not run or is wrong is not chosen, and a backend in the class
    of TVM's own code, where all are if no priority is said, takes what it is faster at. With
    ``layouts="best"`` those of values are chosen in the same problem: what the backends want is
    looked at, what is ``desired`` (see `plan_layout`) must be. The input
    module is not changed.
    """
    if layouts not in ("given", "best"):
        raise ValueError(f"dispatch: layouts must be 'given' or 'best', got {layouts!r}")
    if desired and layouts == "given":
        raise ValueError("dispatch: desired layouts need layouts='best'")
    _check(priority, force)
    named = given(backends)
    classes = {b.name: (priority or {}).get(b.name, 3) for b in named}
    unknown = set(priority or {}) - {*classes, "tvm"}
    if unknown:
        raise ValueError(f"priority: {', '.join(sorted(unknown))} is not among the backends")
    lowered = read(mod, "dispatch")
    forced = forced_ops(lowered.ops, lowered.infos, force or {}, named)
    needed = {f.backend for f in forced.values()}
    floor = (priority or {}).get("tvm", 3 if measure is not None and not priority else 1)
    usable = [b for b in named if (classes[b.name] >= floor or b.name in needed)
              and _usable(b, needed)]  # fmt: skip
    below = {b.name for b in usable if classes[b.name] < floor}
    if measure is not None:
        classes["tvm"] = floor
    while True:
        here, relaid, asked = lowered, None, Asked(classes, forced, below)
        if layouts == "best":
            relaid = in_best_layouts(lowered, usable, asked, desired, measure)
            here = read(relaid.module, "dispatch", lowered.analyse)
            asked = replace(asked, forced=forced_ops(here.ops, here.infos, force or {}, named))
        try:
            costing = None
            if measure is not None:
                costing = _costing(here, usable, measure)
            best = _best(here, asked, usable, costing)
            taken = [m for m in best.matches if m.backend != "tvm"]
            reasons = {} if costing is None else costing.reasons
            done = applied(here, taken, usable, best.solution.status, reasons)
            timings = () if costing is None else tuple(costing.timings)
            return replace(of_layouts(done, lowered, relaid), timings=timings)
        except Failed as e:
            if e.backend.name in needed:
                raise CannotForce(f"{e.backend.name}: {e}") from e
            warnings.warn(f"{e.backend.name} is left out: {e}", stacklevel=2)
            usable = [b for b in usable if b is not e.backend]


def of_layouts(done: Dispatched, lowered: Lowered, relaid: Relaid | None) -> Dispatched:
    """With what was done to the module before its regions were chosen."""
    if relaid is None:
        return done
    plan = replace(done.plan, module=fingerprint(lowered.mod), layouts=relaid.layouts)
    status = done.status if relaid.report.status == "optimal" else relaid.report.status
    return replace(done, plan=plan, report=relaid.report, status=status)


def given(backends: Sequence[str | Backend]) -> list[Backend]:
    """Backends by name or as they are, without TVM.

    Raises ``TypeError`` for what is no backend, ``ValueError`` for two of one name.
    """
    if isinstance(backends, str) or not isinstance(backends, Iterable):
        raise TypeError(f"backends: expected a sequence of them, got {backends!r}")
    out: list[Backend] = []
    for b in backends:
        if not isinstance(b, (str, Backend)):
            raise TypeError(f"backends: expected a Backend or a name, got {b!r}")
        if b == "tvm":
            continue
        made = find(b) if isinstance(b, str) else b
        if any(made.name == other.name and made is not other for other in out):
            raise ValueError(f"backends: there are two that are called {made.name}")
        if made not in out:
            out.append(made)
    return out


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


class Failed(Exception):
    """A backend's converter failed."""

    def __init__(self, backend: Backend, reason: str) -> None:
        super().__init__(reason)
        self.backend = backend


def _usable(b: Backend, needed: Collection[str]) -> bool:
    try:
        reason = b.available()
    except Exception as e:  # somebody else's code
        reason = f"to ask it failed: {type(e).__name__}: {e}"
    if reason is not None and b.name in needed:
        raise CannotForce(f"{b.name} is not available: {reason}")
    if reason is not None:
        warnings.warn(f"{b.name} is not available: {reason}", stacklevel=3)
    return reason is None


def _best(
    lowered: Lowered, asked: Asked, backends: Sequence[Backend], costing: Costing | None
) -> Chosen:
    """The best of all chains and of all coarse regions, also of what a choice leaves behind."""
    found = [*lowered.matches(backends), *lowered.coarse(backends, asked.forced)]
    seen = allowed(list(filter(asked.usable, found)), asked.forced, lowered.infos, backends)
    matches, staying = seen, dict(lowered.staying)
    while True:
        if costing is not None:
            matches = list(filter(asked.usable, costing(seen)))
            staying.update(costing.alone)
            lost = next((op for op in asked.must if not any(op in m.ops for m in matches)), None)
            if lost is not None:
                raise CannotForce(costing.reasons[lost])
        try:
            best = choose(matches, asked.classes, staying, asked.must, lowered.ring)
        except NoSolution as e:
            raise CannotForce("the operators cannot all go where they must: their regions overlap"
                              ) from e  # fmt: skip
        taken = [m for m in best.matches if m.backend != "tvm"]
        rest = lowered.coarse(backends, asked.forced, taken)
        known = {(m.backend, m.pattern, m.ops) for m in seen}
        more = [m for m in filter(asked.usable, rest)
                if (m.backend, m.pattern, m.ops) not in known]  # fmt: skip
        if not more:
            return best
        matches = seen = [*seen, *more]


def _costing(lowered: Lowered, backends: Sequence[Backend], measure: Measure) -> Costing:
    from .measure.costs import Costing

    return Costing(lowered.ops, lowered.infos, backends, measure)


def applied(
    lowered: Lowered, matches: Sequence[Match], backends: Sequence[Backend], status: str,
    reasons: Mapping[Op, str] | None = None,
) -> Dispatched:  # fmt: skip
    """The module in which these matches are calls of backends.

    ``reasons``: why ops stay behind whose matches were not offered.
    """
    by_name = {b.name: b for b in backends}
    flop = {op: flops(lowered.infos[op], op) for op in lowered.ops}
    regions: dict[str, list[Region]] = {}
    placed: dict[Op, Placed] = {}
    taken = []
    first = _called(lowered.mod)
    for k, m in enumerate(matches, first):
        symbol = f"{m.backend}_{k}"
        made = region(symbol, m.ops, lowered.infos, by_name[m.backend].merges)
        regions.setdefault(m.backend, []).append(made.region)
        placed[m.ops[-1]] = made
        taken.append(Taken(symbol, m.backend, m.pattern, tuple(_name(lowered, o) for o in m.ops),
                           sum(flop[o] for o in m.ops)))  # fmt: skip
    codes = [_convert(by_name[b], rs) for b, rs in regions.items()]
    rounds = {symbol: how for c in codes for symbol, how in c.rounds}
    merged = {p.region.symbol for p in placed.values() if len(p.region.calls) < len(p.ops)}
    taken = [replace(t, rounds=_rounds(t.symbol in merged, rounds.get(t.symbol))) for t in taken]
    covered = {op for m in matches for op in m.ops}
    rest = [op for op in lowered.ops if op not in covered]
    module = partitioned(lowered.mod, {
        g: Rewritten(x, lowered.flows[g], tuple(placed[o] for o in x.ops if o in placed))
        for g, x in lowered.functions.items()
    }, codes)  # fmt: skip
    options = tuple(dict.fromkeys(o for c in codes for o in c.options))
    left = tuple(
        replace(told, why=reasons[op], mend="") if reasons and op in reasons else told
        for op, told in zip(rest, left_behind(rest, lowered.infos, backends), strict=True)
    )
    plan = _plan(lowered, matches, by_name, status)
    return Dispatched(module, tuple(taken), left, options, status, plan, sum(flop.values()))


def _rounds(merged: bool, how: str | None) -> str | None:
    told = ["several operators are computed as the function that they are"] * merged
    return "; ".join(filter(None, [*told, how])) or None


def _name(lowered: Lowered, op: Op) -> str:
    info = lowered.infos[op].info
    assert isinstance(info, OpInfo)
    return info.name


def _called(mod: Any) -> int:
    """A number from which on names of regions are free: the module may have some."""
    names: list[str] = []
    for f in mod.functions.values():
        tvm_ffi.structural_walk(f, (relax.ExternFunc, lambda e: names.append(e.global_symbol)))
    numbers = [n.rpartition("_")[2] for n in names]
    return max((int(n) + 1 for n in numbers if n.isdecimal()), default=0)


def _plan(
    lowered: Lowered, matches: Sequence[Match], backends: Mapping[str, Backend], status: str
) -> DispatchPlan:
    places = {op: (str(g.name_hint), k) for g, x in lowered.functions.items()
              for k, op in enumerate(x.ops)}  # fmt: skip
    regions = tuple(
        PlannedRegion(
            places[m.ops[0]][0], m.backend, m.pattern, tuple(places[op][1] for op in m.ops)
        )
        for m in matches
    )
    versions = {b: backends[b].version() for b in sorted({m.backend for m in matches})}
    return DispatchPlan(fingerprint(lowered.mod), versions, regions, status)


def _convert(b: Backend, regions: Sequence[Region]) -> Code:
    try:
        code = b.convert(regions)
    except Exception as e:  # a converter is somebody else's code
        raise Failed(b, f"its converter failed: {type(e).__name__}: {e}") from e
    if not isinstance(code, Code):
        raise Failed(b, f"its converter gave {code!r}, no Code")
    return code
