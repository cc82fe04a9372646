"""Near misses: how far patterns get at an op that none of them took, and what stops them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.results.op_info import LayoutNormalised, OpInfo, Refusal
from ...layout.graph.relax_graph import Op, Value
from ..backend.backend import Backend
from ..patterns.elementwise_groups import Infos
from ..patterns.pattern import MatchState, Pattern, follower, listed, node
from ..patterns.suggest import Unmet, duplicate, force, swap

TAKEN = "it matches, and another choice was forced, or is better"


@dataclass(frozen=True)
class Miss:
    """``matched``: the ops before the one that failed. ``passed``: the conditions before it.

    ``mend`` is what would make it match, "" where that is not known.
    """

    backend: str
    pattern: str
    matched: int
    passed: int
    reason: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.backend}, pattern {self.pattern}: {self.reason}"


@dataclass(frozen=True)
class _Begun:
    """A pattern that began, up to the last op of the state's chain."""

    backend: Backend
    pattern: Pattern
    state: MatchState

    def miss(self, passed: int, unmet: Unmet, matched: int | None = None) -> Miss:
        n = len(self.state.chain) if matched is None else matched
        return Miss(self.backend.name, self.pattern.name, n, passed, unmet.reason, unmet.mend)

    @property
    def reach(self) -> tuple[bool, int]:
        return self.pattern.done(self.state), len(self.state.chain)

    def takes(self, name: str) -> bool:
        return any(name in self.pattern.steps[k].names for k, _ in self.pattern.next(self.state))


class PartialMatches:
    """Beginnings of all patterns in a graph: by their last op, and the best one with each op."""

    def __init__(self, infos: Infos, backends: Sequence[Backend]) -> None:
        self.infos, self.backends = infos, backends
        self.ends: dict[Op, list[_Begun]] = {}
        self.within: dict[Op, _Begun] = {}
        for b in backends:
            for p in b.patterns:
                for op in infos:
                    for s in p.states(op, infos):
                        self._add(_Begun(b, p, s))

    def _add(self, begun: _Begun) -> None:
        self.ends.setdefault(begun.state.chain[-1], []).append(begun)
        for op in begun.state.chain:
            if op not in self.within or begun.reach > self.within[op].reach:
                self.within[op] = begun

    def nearest(self, op: Op) -> Miss | None:
        """The miss with most ops and conditions behind it; the first of equals."""
        found = list(self.misses(op))
        return max(found, key=lambda m: (m.matched, m.passed), default=None)

    def misses(self, op: Op) -> Iterator[Miss]:
        if op in self.within:
            yield self._unfinished(op, self.within[op])
        yield from self._as_anchor(op)
        yield from self._in_coarse(op)
        for v in op.inputs:
            if v is not None and v.producer is not None:
                yield from self._as_follower(op, v, v.producer)
                yield from self._behind(op, v.producer)

    def _unfinished(self, op: Op, begun: _Begun) -> Miss:
        """A pattern that has the op, and needs another one after it or was not chosen."""
        p, s = begun.pattern, begun.state
        last = s.chain[-1]
        if p.done(s):
            place = f"{begun.backend.name}.{p.name}"
            taken = Unmet(TAKEN, force(_name(op, self.infos), place))
            return begun.miss(0, taken, len(s.chain) + 1)
        names = {n for k, _ in p.next(s) for n in p.steps[k].names}
        needs = f"{listed(names)} must follow {_name(last, self.infos)}, and "
        after = follower(last, self.infos)
        if after is None:
            return begun.miss(0, _ending(last, self.infos).after(needs))
        failed = max(f for k, _ in p.next(s) if (f := p.steps[k].failing(after)))
        return begun.miss(failed[0], failed[1].after(needs))

    def _as_anchor(self, op: Op) -> Iterator[Miss]:
        start = node(op, self.infos)
        assert start is not None
        for b in self.backends:
            for p in b.patterns:
                failed = p.steps[0].failing(start)
                if failed is not None and start.info.name in p.steps[0].names:
                    yield _missed(b, p.name, failed)
                elif failed is not None and any(start.info.name in s.names for s in p.steps):
                    before = _before(p, start.info.name)
                    reason = f"{start.info.name} is taken only after {listed(before)}"
                    yield Miss(b.name, p.name, 0, -2, reason)

    def _in_coarse(self, op: Op) -> Iterator[Miss]:
        """The op in a region of any size."""
        here = node(op, self.infos)
        assert here is not None
        for b in self.backends:
            for c in b.coarse:
                failed = c.failing(here)
                if failed is None:
                    mend = force(here.info.name, f"{b.name}.{c.name}")
                    yield Miss(b.name, c.name, 1, 0, TAKEN, mend)
                elif failed[0] >= -1:
                    yield _missed(b, c.name, failed)

    def _as_follower(self, op: Op, v: Value, producer: Op) -> Iterator[Miss]:
        """The op reads what a chain ends with."""
        here = node(op, self.infos, v)
        assert here is not None
        name, last = here.info.name, _name(producer, self.infos)
        for begun in self.ends.get(producer, ()):
            if not begun.takes(name):
                continue
            if follower(producer, self.infos) is None:
                ending = _ending(producer, self.infos)
                yield begun.miss(-1, ending.after(f"{name} may follow {last}, but "))
                continue
            steps = [begun.pattern.steps[k] for k, _ in begun.pattern.next(begun.state)]
            failed = [f for s in steps if name in s.names and (f := s.failing(here)) is not None]
            if failed:
                passed, unmet = max(failed)
                yield begun.miss(passed, unmet.after(f"after {last}, "))

    def _behind(self, op: Op, between: Op) -> Iterator[Miss]:
        """What the op reads is made by an op that a chain ends before."""
        name = _name(op, self.infos)
        for v in between.inputs:
            for begun in self.ends.get(v.producer, ()) if v is not None and v.producer else ():
                if begun.takes(name) and not begun.takes(_name(between, self.infos)):
                    last = _name(begun.state.chain[-1], self.infos)
                    stands = _name(between, self.infos)
                    told = f"{stands} stands between {last} and {name}"
                    mend = swap(name, stands) if stands == "relax.astype" else ""
                    yield begun.miss(-2, Unmet(told, mend))


def _missed(b: Backend, pattern: str, failed: tuple[int, Unmet]) -> Miss:
    passed, unmet = failed
    return Miss(b.name, pattern, 0, passed, unmet.reason, unmet.mend)


def _before(p: Pattern, name: str) -> set[str]:
    """What a step with this name may follow."""
    out: set[str] = set()
    for k, step in enumerate(p.steps):
        if name not in step.names:
            continue
        for j in range(k - 1, -1, -1):
            out |= p.steps[j].names
            if p.steps[j].least:
                break
    return out


def _name(op: Op, infos: Infos) -> str:
    info = infos[op].operator
    return op.name if info is None else info.name


def laid(info: OpInfo | LayoutNormalised) -> str:
    """How the buffers of an operator lie."""
    return ", ".join(info.layouts if isinstance(info, OpInfo) else info.places)


def _ending(op: Op, infos: Infos) -> Unmet:
    """Why no chain goes on after an op."""
    (v,) = op.outputs
    twice = duplicate(_name(op, infos)) if v.uses else ""
    if v.pinned is not None:
        return Unmet(f"its result is also {v.pinned}", twice)
    if len(v.uses) > 1:
        return Unmet(f"its result is read by {len(v.uses)} operators, one is taken", twice)
    if not v.uses:
        return Unmet("nothing reads its result")
    reader = v.uses[0]
    info = infos[reader].info
    if not isinstance(info, Refusal):
        return Unmet(f"{_name(reader, infos)} reads it laid out as {laid(info)}")
    return Unmet(f"{reader.name}, which is not recognised, reads it")
