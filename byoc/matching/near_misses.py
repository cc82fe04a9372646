"""Near misses: how far patterns get at an operator that none of them took, and what stops them."""

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
    """A pattern that does not match an operator.

    Attributes:
        backend: The backend of the pattern.
        pattern: Its name.
        matched: The number of operators that matched.
        passed: The number of conditions that held before the one that failed; negative if the
            operator is not one that the pattern has there.
        reason: Why it does not match.
        suggestion: What would make it match; empty if unknown.
    """

    backend: str
    pattern: str
    matched: int
    passed: int
    reason: str
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.backend}, pattern {self.pattern}: {self.reason}"


@dataclass(frozen=True)
class _Partial:
    """A partial match of a pattern."""

    backend: Backend
    pattern: Pattern
    state: MatchState

    def miss(self, passed: int, unmet: Unmet, matched: int | None = None) -> Miss:
        n = len(self.state.chain) if matched is None else matched
        return Miss(self.backend.name, self.pattern.name, n, passed, unmet.reason, unmet.suggestion)

    @property
    def reach(self) -> tuple[bool, int]:
        return self.pattern.done(self.state), len(self.state.chain)

    def takes(self, name: str) -> bool:
        return any(name in self.pattern.steps[k].names for k, _ in self.pattern.next(self.state))


class PartialMatches:
    """The partial matches of all patterns in a graph, by last op and by the ops in them."""

    def __init__(self, infos: Infos, backends: Sequence[Backend]) -> None:
        self.infos, self.backends = infos, backends
        self.ends: dict[Op, list[_Partial]] = {}
        self.within: dict[Op, _Partial] = {}
        for b in backends:
            for p in b.patterns:
                for op in infos:
                    for s in p.states(op, infos):
                        self._add(_Partial(b, p, s))

    def _add(self, partial: _Partial) -> None:
        self.ends.setdefault(partial.state.chain[-1], []).append(partial)
        for op in partial.state.chain:
            if op not in self.within or partial.reach > self.within[op].reach:
                self.within[op] = partial

    def nearest(self, op: Op) -> Miss | None:
        """The miss that matches most ops, then most conditions; the first of equals."""
        return max(self.misses(op), key=lambda m: (m.matched, m.passed), default=None)

    def misses(self, op: Op) -> Iterator[Miss]:
        if op in self.within:
            yield self._unfinished(op, self.within[op])
        yield from self._as_anchor(op)
        yield from self._in_coarse(op)
        for v in op.inputs:
            if v is not None and v.producer is not None:
                yield from self._as_follower(op, v, v.producer)
                yield from self._behind(op, v.producer)

    def _unfinished(self, op: Op, partial: _Partial) -> Miss:
        """A pattern that contains the op, and needs a follower or was not chosen."""
        p, s = partial.pattern, partial.state
        last = s.chain[-1]
        if p.done(s):
            place = f"{partial.backend.name}.{p.name}"
            taken = Unmet(TAKEN, force(_name(op, self.infos), place))
            return partial.miss(0, taken, len(s.chain) + 1)
        names = {n for k, _ in p.next(s) for n in p.steps[k].names}
        needs = f"{listed(names)} must follow {_name(last, self.infos)}, and "
        after = follower(last, self.infos)
        if after is None:
            return partial.miss(0, _ending(last, self.infos).after(needs))
        failed = max(f for k, _ in p.next(s) if (f := p.steps[k].failing(after)))
        return partial.miss(failed[0], failed[1].after(needs))

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
        """The op in a coarse region."""
        candidate = node(op, self.infos)
        assert candidate is not None
        for b in self.backends:
            for c in b.coarse:
                failed = c.failing(candidate)
                if failed is None:
                    suggestion = force(candidate.info.name, f"{b.name}.{c.name}")
                    yield Miss(b.name, c.name, 1, 0, TAKEN, suggestion)
                elif failed[0] >= -1:
                    yield _missed(b, c.name, failed)

    def _as_follower(self, op: Op, v: Value, producer: Op) -> Iterator[Miss]:
        """The op reads the result of a partial match."""
        candidate = node(op, self.infos, v)
        assert candidate is not None
        name, last = candidate.info.name, _name(producer, self.infos)
        for partial in self.ends.get(producer, ()):
            if not partial.takes(name):
                continue
            if follower(producer, self.infos) is None:
                ending = _ending(producer, self.infos)
                yield partial.miss(-1, ending.after(f"{name} may follow {last}, but "))
                continue
            steps = [partial.pattern.steps[k] for k, _ in partial.pattern.next(partial.state)]
            failed = [
                f for s in steps if name in s.names and (f := s.failing(candidate)) is not None
            ]
            if failed:
                passed, unmet = max(failed)
                yield partial.miss(passed, unmet.after(f"after {last}, "))

    def _behind(self, op: Op, between: Op) -> Iterator[Miss]:
        """Another op stands between a partial match and the op."""
        name = _name(op, self.infos)
        for v in between.inputs:
            for partial in self.ends.get(v.producer, ()) if v is not None and v.producer else ():
                if partial.takes(name) and not partial.takes(_name(between, self.infos)):
                    last = _name(partial.state.chain[-1], self.infos)
                    middle = _name(between, self.infos)
                    reason = f"{middle} stands between {last} and {name}"
                    suggestion = swap(name, middle) if middle == "relax.astype" else ""
                    yield partial.miss(-2, Unmet(reason, suggestion))


def _missed(b: Backend, pattern: str, failed: tuple[int, Unmet]) -> Miss:
    passed, unmet = failed
    return Miss(b.name, pattern, 0, passed, unmet.reason, unmet.suggestion)


def _before(p: Pattern, name: str) -> set[str]:
    """The operators that a step with this name may follow."""
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


def buffer_layouts(info: OpInfo | LayoutNormalised) -> str:
    """The layouts of an operator's buffers, for messages."""
    return ", ".join(info.layouts if isinstance(info, OpInfo) else info.places)


def _ending(op: Op, infos: Infos) -> Unmet:
    """Why no chain continues after an op."""
    (v,) = op.outputs
    suggestion = duplicate(_name(op, infos)) if v.uses else ""
    if v.pinned is not None:
        return Unmet(f"its result is also {v.pinned}", suggestion)
    if len(v.uses) > 1:
        return Unmet(f"its result is read by {len(v.uses)} operators, one is taken", suggestion)
    if not v.uses:
        return Unmet("nothing reads its result")
    reader = v.uses[0]
    info = infos[reader].info
    if not isinstance(info, Refusal):
        return Unmet(f"{_name(reader, infos)} reads it laid out as {buffer_layouts(info)}")
    return Unmet(f"{reader.name}, which is not recognised, reads it")
