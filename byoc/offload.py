"""Hand regions of a lowered module to backends: match, choose, convert, partition."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ..analysis.recover import analyser
from ..layout.graph import Graph, Op, Value, graph
from ..layout.unused import check_defined
from .backend import Backend, Code, find
from .choose import Match, choose
from .flops import flops
from .partition import partitioned
from .region import Infos, Region, region
from .why import Left, left_behind


@dataclass(frozen=True)
class Taken:
    """A region that a backend has: the operators in it, and what was matched."""

    symbol: str
    backend: str
    pattern: str
    ops: tuple[str, ...]
    flops: int


@dataclass(frozen=True)
class Dispatched:
    """A module whose regions are calls of backends, and what became of each op."""

    module: Any
    taken: tuple[Taken, ...]
    left: tuple[Left, ...]
    options: tuple[str, ...]
    status: str
    total: int = 0

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
) -> Dispatched:
    """Give each op of a lowered module to the best backend that takes it.

    ``backends`` are names or objects, ``priority`` their classes (a higher one first; 3 where it is
    not said, TVM's own code is 1: a backend below that takes nothing). A backend that is not
    available, or that fails, is left out with a warning; its ops fall to the next or to TVM.
    The input module is not changed.
    """
    check_defined(mod, "dispatch")
    chosen = [find(b) if isinstance(b, str) else b for b in backends if b != "tvm"]
    classes = {b.name: (priority or {}).get(b.name, 3) for b in chosen}
    unknown = set(priority or {}) - {*classes, "tvm"}
    if unknown:
        raise ValueError(f"priority: {', '.join(sorted(unknown))} is not among the backends")
    floor = (priority or {}).get("tvm", 1)
    usable = [b for b in chosen if classes[b.name] >= floor and _usable(b)]
    functions = {g: graph(mod, f) for g, f in mod.functions_items()
                 if isinstance(f, relax.Function)}  # fmt: skip
    analyse = analyser()
    infos = {op: analyse(op.func) for g in functions.values() for op in g.ops}
    while True:
        try:
            return _dispatched(mod, functions, infos, usable, classes)
        except _Failed as e:
            warnings.warn(f"{e.backend.name} is left out: {e}", stacklevel=2)
            usable = [b for b in usable if b is not e.backend]


class _Failed(Exception):
    def __init__(self, backend: Backend, reason: str) -> None:
        super().__init__(reason)
        self.backend = backend


def _usable(b: Backend) -> bool:
    reason = b.available()
    if reason is not None:
        warnings.warn(f"{b.name} is not available: {reason}", stacklevel=3)
    return reason is None


def _dispatched(
    mod: Any, functions: Mapping[Any, Graph], infos: Infos,
    backends: Sequence[Backend], classes: Mapping[str, int],
) -> Dispatched:  # fmt: skip
    by_name = {b.name: b for b in backends}
    matches = [m for g in functions.values() for m in found(g, infos, backends)]
    default = {op: float(flops(infos[op], op)) for g in functions.values() for op in g.ops}
    best = choose(matches, classes, default)
    regions: dict[str, list[Region]] = {b: [] for b in by_name}
    calls: dict[Op, tuple[str, tuple[Op, ...], tuple[Value, ...]]] = {}
    taken = []
    for k, m in enumerate(best.matches):
        symbol = f"{m.backend}_{k}"
        made, inputs = region(symbol, m.ops, infos)
        regions[m.backend].append(made)
        calls[m.ops[-1]] = symbol, m.ops, inputs
        taken.append(Taken(symbol, m.backend, m.pattern, tuple(c.op for c in made.calls),
                           int(sum(default[o] for o in m.ops))))  # fmt: skip
    codes = [_convert(by_name[b], rs) for b, rs in regions.items() if rs]
    covered = {op for m in best.matches for op in m.ops}
    rest = [op for g in functions.values() for op in g.ops if op not in covered]
    module = partitioned(mod, {g: (x, {o: c for o, c in calls.items() if o in set(x.ops)})
                               for g, x in functions.items()}, codes)  # fmt: skip
    options = tuple(dict.fromkeys(o for c in codes for o in c.options))
    return Dispatched(module, tuple(taken), left_behind(rest, infos, backends), options,
                      best.solution.status, int(sum(default.values())))  # fmt: skip


def found(g: Graph, infos: Infos, backends: Sequence[Backend]) -> list[Match]:
    """All matches of all backends, overlapping ones too."""
    out = []
    for b in backends:
        for op in g.ops:
            for p in b.patterns:
                for ops in p.matches(op, infos):
                    cost = 0.0 if b.cost is None else b.cost(region("", ops, infos)[0])
                    out.append(Match(b.name, p.name, ops, cost))
    return out


def _convert(b: Backend, regions: Sequence[Region]) -> Code:
    try:
        return b.convert(regions)
    except Exception as e:  # a converter is somebody else's code
        raise _Failed(b, f"its converter failed: {type(e).__name__}: {e}") from e
