"""Hand regions of a lowered module to backends: match, choose, convert, partition."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tvm import relax

from ..analysis.recover import analyser
from ..layout.graph import Graph, Op, graph
from ..layout.solve import NoSolution
from ..layout.unused import check_defined
from .backend import Backend, Code, find
from .choose import Chosen, Match, choose
from .dispatch_plan import DispatchPlan, PlannedRegion, fingerprint
from .flops import flops
from .flow import Flow, cycle, flows, joined
from .force import CannotForce, Forced, allowed, forced_ops
from .partition import Rewritten, partitioned
from .region import Infos, Placed, Region, region
from .why import Left, left_behind

if TYPE_CHECKING:
    from .measure import Measure, Timing
    from .measure.costs import Costing

#: What an op costs that stays with TVM: its default build does so much in a microsecond.
TVM_RATE = 2e3


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

    ``timings``: what was measured to choose them.
    """

    module: Any
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    options: tuple[str, ...]
    status: str
    plan: DispatchPlan
    total: int = 0
    timings: tuple[Timing, ...] = ()

    def summary(self) -> str:
        """One line: ``offloaded 57 of 61 ops, 99.2% of FLOPs, onednn 53``."""
        ops = sum(len(t.ops) for t in self.taken)
        by: dict[str, int] = {}
        for t in self.taken:
            by[t.backend] = by.get(t.backend, 0) + len(t.ops)
        share = sum(t.flops for t in self.taken) / self.total if self.total else 0.0
        told = "".join(f", {name} {n}" for name, n in sorted(by.items()))
        return (f"offloaded {ops} of {ops + len(self.left)} ops, {share:.1%} of FLOPs{told}, "
                f"tvm {len(self.left)}")  # fmt: skip


def dispatch(
    mod: Any,
    backends: Sequence[str | Backend],
    priority: Mapping[str, int] | None = None,
    *,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
) -> Dispatched:
    """Give each op of a lowered module to the best backend that takes it.

    ``backends`` are names or objects, ``priority`` their classes (a higher one first; 3 where it is
    not said, TVM's own code is 1: a backend below that takes nothing). A backend that is not
    available, or that fails, is left out with a warning; its ops fall to the next or to TVM.
    ``force`` sends operators to one backend (see :mod:`.force`) and raises :class:`.CannotForce`
    where that cannot be. ``measure`` times the code of all matches, and TVM's for the same ops
    (see :class:`.Measure`): what does not run or is wrong is not chosen, and a backend in the class
    of TVM's own code, where all are if no priority is said, takes what it is faster at. The input
    module is not changed.
    """
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
    while True:
        try:
            costing = None
            if measure is not None:
                costing = _costing(lowered, usable, measure)
                classes["tvm"] = floor
            best = _best(lowered, classes, forced, usable, below, costing)
            taken = [m for m in best.matches if m.backend != "tvm"]
            if costing is None:
                return applied(lowered, taken, usable, best.solution.status)
            done = applied(lowered, taken, usable, best.solution.status, costing.reasons)
            return replace(done, timings=tuple(costing.timings))
        except Failed as e:
            if e.backend.name in needed:
                raise CannotForce(f"{e.backend.name}: {e}") from e
            warnings.warn(f"{e.backend.name} is left out: {e}", stacklevel=2)
            usable = [b for b in usable if b is not e.backend]


@dataclass(frozen=True)
class Lowered:
    """A module, what it calls, and what that computes."""

    mod: Any
    functions: Mapping[Any, Graph]
    infos: Infos
    flows: Mapping[Any, tuple[Flow, ...]]

    @property
    def ops(self) -> list[Op]:
        return [op for g in self.functions.values() for op in g.ops]

    def matches(self, backends: Sequence[Backend]) -> list[Match]:
        """All chains of all backends, overlapping ones too."""
        return [m for g in self.functions.values() for m in found(g, self.infos, backends)]

    def coarse(
        self, backends: Sequence[Backend], forced: Mapping[Op, Forced], chosen: Sequence[Match] = ()
    ) -> list[Match]:
        """The maximal regions of all backends, beside those that are chosen, of ops that are free.

        An op is not free for a backend if it is forced elsewhere.
        """
        taken = {op for m in chosen for op in m.ops}
        out = []
        for gvar, g in self.functions.items():
            blocks = [joined(f, [s for m in chosen if (s := f.set(m.ops))])
                      for f in self.flows[gvar]]  # fmt: skip
            for b in backends:
                free = [op for op in g.ops if op not in taken
                        and (op not in forced or forced[op].backend == b.name)]  # fmt: skip
                for c in b.coarse:
                    for ops in c.regions(blocks, free, self.infos):
                        out.append(_match(b, c.name, ops, self.infos))
        return out

    def ring(self, matches: Sequence[Match]) -> list[int] | None:
        """Matches that need each other's results."""
        for f in (f for blocks in self.flows.values() for f in blocks):
            sets = [f.set(m.ops) if len(m.ops) > 1 else 0 for m in matches]
            there = [k for k, s in enumerate(sets) if s]
            found = cycle(f, [sets[k] for k in there])
            if found is not None:
                return [there[k] for k in found]
        return None


def read(mod: Any, what: str) -> Lowered:
    """Raises as `check_defined` does."""
    check_defined(mod, what)
    functions = {g: graph(mod, f) for g, f in mod.functions_items()
                 if isinstance(f, relax.Function)}  # fmt: skip
    analyse = analyser()
    blocks = {g: () if x.mutates else tuple(flows(mod[g], x)) for g, x in functions.items()}
    infos = {op: analyse(op.func) for g in functions.values() for op in g.ops}
    return Lowered(mod, functions, infos, blocks)


def given(backends: Sequence[str | Backend]) -> list[Backend]:
    """Backends by name or as they are, without TVM."""
    return [find(b) if isinstance(b, str) else b for b in backends if b != "tvm"]


class Failed(Exception):
    """A backend's converter failed."""

    def __init__(self, backend: Backend, reason: str) -> None:
        super().__init__(reason)
        self.backend = backend


def _usable(b: Backend, needed: Collection[str]) -> bool:
    reason = b.available()
    if reason is not None and b.name in needed:
        raise CannotForce(f"{b.name} is not available: {reason}")
    if reason is not None:
        warnings.warn(f"{b.name} is not available: {reason}", stacklevel=3)
    return reason is None


def _best(
    lowered: Lowered, classes: Mapping[str, int], forced: Mapping[Op, Forced],
    backends: Sequence[Backend], below: Collection[str], costing: Costing | None,
) -> Chosen:  # fmt: skip
    """The best of all chains and of all coarse regions, also of what a choice leaves behind."""

    def usable(matches: Sequence[Match]) -> list[Match]:
        return [m for m in matches
                if (m.backend not in below or any(op in forced for op in m.ops))
                and all(op not in forced or forced[op].allows(m) for op in m.ops)]  # fmt: skip

    default = {op: flops(lowered.infos[op], op) / TVM_RATE for op in lowered.ops}
    must = [op for op, f in forced.items() if f.backend != "tvm"]
    seen = allowed(usable([*lowered.matches(backends), *lowered.coarse(backends, forced)]), forced,
                   lowered.infos, backends)  # fmt: skip
    matches = seen
    while True:
        if costing is not None:
            matches = usable(costing(seen))
            default.update(costing.alone)
            lost = next((op for op in must if not any(op in m.ops for m in matches)), None)
            if lost is not None:
                raise CannotForce(costing.reasons[lost])
        try:
            best = choose(matches, classes, default, must, lowered.ring)
        except NoSolution as e:
            raise CannotForce("the operators cannot all go where they must: their regions overlap"
                              ) from e  # fmt: skip
        taken = [m for m in best.matches if m.backend != "tvm"]
        rest = lowered.coarse(backends, forced, taken)
        known = {(m.backend, m.pattern, m.ops) for m in seen}
        more = [m for m in usable(rest) if (m.backend, m.pattern, m.ops) not in known]
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
    for k, m in enumerate(matches):
        symbol = f"{m.backend}_{k}"
        made = region(symbol, m.ops, lowered.infos)
        regions.setdefault(m.backend, []).append(made.region)
        placed[m.ops[-1]] = made
        taken.append(Taken(symbol, m.backend, m.pattern, tuple(c.op for c in made.region.calls),
                           sum(flop[o] for o in m.ops)))  # fmt: skip
    codes = [_convert(by_name[b], rs) for b, rs in regions.items()]
    rounds = {symbol: how for c in codes for symbol, how in c.rounds}
    taken = [replace(t, rounds=rounds.get(t.symbol)) for t in taken]
    covered = {op for m in matches for op in m.ops}
    rest = [op for op in lowered.ops if op not in covered]
    module = partitioned(lowered.mod, {
        g: Rewritten(x, lowered.flows[g], tuple(placed[o] for o in x.ops if o in placed))
        for g, x in lowered.functions.items()
    }, codes)  # fmt: skip
    options = tuple(dict.fromkeys(o for c in codes for o in c.options))
    left = tuple(replace(told, why=(reasons or {}).get(op, told.why)) for op, told in
                 zip(rest, left_behind(rest, lowered.infos, backends), strict=True))  # fmt: skip
    plan = _plan(lowered, matches, by_name, status)
    return Dispatched(module, tuple(taken), left, options, status, plan, sum(flop.values()))


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


def found(g: Graph, infos: Infos, backends: Sequence[Backend]) -> list[Match]:
    """All chains of all backends."""
    out = []
    for b in backends:
        for op in g.ops:
            for p in b.patterns:
                for ops in p.matches(op, infos):
                    out.append(_match(b, p.name, ops, infos))
    return out


def _match(b: Backend, pattern: str, ops: tuple[Op, ...], infos: Infos) -> Match:
    cost = 0.0 if b.cost is None else b.cost(region("", ops, infos).region)
    return Match(b.name, pattern, ops, cost)


def _convert(b: Backend, regions: Sequence[Region]) -> Code:
    try:
        return b.convert(regions)
    except Exception as e:  # a converter is somebody else's code
        raise Failed(b, f"its converter failed: {type(e).__name__}: {e}") from e
