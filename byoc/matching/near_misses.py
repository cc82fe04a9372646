"""Near misses: how far patterns get at an operator that none of them took, and what stops them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...analysis.results.op_info import LayoutNormalised, OpInfo, Refusal
from ...layout.graph.relax_graph import Op, Value
from ..backend.backend import Backend
from ..patterns.elementwise_groups import Infos
from ..patterns.pattern import MatchState, Pattern
from ..patterns.pattern_node import follower, node
from ..patterns.pattern_step import listed
from ..patterns.suggest import Unmet, duplicate, force, swap

NOT_CHOSEN = "it matches, but another choice was forced or costs less"


@dataclass(frozen=True)
class NearMiss:
    """A pattern that does not match an operator.

    Attributes:
        backend: The backend of the pattern.
        pattern: Its name.
        matched: The number of operators that matched.
        passed: The number of conditions that held before the one that failed; negative if the
            pattern has another operator there.
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

    def miss(self, passed: int, unmet: Unmet, matched: int | None = None) -> NearMiss:
        count = len(self.state.chain) if matched is None else matched
        return NearMiss(
            self.backend.name, self.pattern.name, count, passed, unmet.reason, unmet.suggestion
        )

    @property
    def reach(self) -> tuple[bool, int]:
        return self.pattern.is_complete(self.state), len(self.state.chain)

    def takes(self, name: str) -> bool:
        return any(name in self.pattern.steps[k].names for k, _ in self.pattern.next(self.state))


class PartialMatches:
    """The partial matches of all patterns in a graph, by last op and by the ops in them."""

    def __init__(self, infos: Infos, backends: Sequence[Backend]) -> None:
        self.infos, self.backends = infos, backends
        self.ends: dict[Op, list[_Partial]] = {}
        self.within: dict[Op, _Partial] = {}
        for backend in backends:
            for pattern in backend.patterns:
                for op in infos:
                    for state in pattern.states(op, infos):
                        self._add(_Partial(backend, pattern, state))

    def _add(self, partial: _Partial) -> None:
        self.ends.setdefault(partial.state.chain[-1], []).append(partial)
        for op in partial.state.chain:
            if op not in self.within or partial.reach > self.within[op].reach:
                self.within[op] = partial

    def nearest(self, op: Op) -> NearMiss | None:
        """The miss that matches most ops, then most conditions; the first of equals."""
        return max(self.misses(op), key=lambda miss: (miss.matched, miss.passed), default=None)

    def misses(self, op: Op) -> Iterator[NearMiss]:
        if op in self.within:
            yield self._unfinished(op, self.within[op])
        yield from self._as_anchor(op)
        yield from self._in_coarse(op)
        for value in op.inputs:
            if value is not None and value.producer is not None:
                yield from self._as_follower(op, value, value.producer)
                yield from self._behind(op, value.producer)

    def _unfinished(self, op: Op, partial: _Partial) -> NearMiss:
        """A pattern that contains the op, and needs a follower or was not chosen."""
        pattern, state = partial.pattern, partial.state
        last = state.chain[-1]
        if pattern.is_complete(state):
            place = f"{partial.backend.name}.{pattern.name}"
            unmet = Unmet(NOT_CHOSEN, force(_name(op, self.infos), place))
            return partial.miss(0, unmet, len(state.chain) + 1)
        names = {n for k, _ in pattern.next(state) for n in pattern.steps[k].names}
        needs = f"{listed(names)} must follow {_name(last, self.infos)}, and "
        after = follower(last, self.infos)
        if after is None:
            return partial.miss(0, _ending(last, self.infos).after(needs))
        steps = [pattern.steps[k] for k, _ in pattern.next(state)]
        failed = max(failure for step in steps if (failure := step.failing(after)))
        return partial.miss(failed[0], failed[1].after(needs))

    def _as_anchor(self, op: Op) -> Iterator[NearMiss]:
        start = node(op, self.infos)
        assert start is not None
        for backend in self.backends:
            for pattern in backend.patterns:
                failed = pattern.steps[0].failing(start)
                if failed is not None and start.info.name in pattern.steps[0].names:
                    yield _missed(backend, pattern.name, failed)
                elif failed is not None and any(start.info.name in s.names for s in pattern.steps):
                    before = _before(pattern, start.info.name)
                    reason = f"{start.info.name} must follow {listed(before)}"
                    yield NearMiss(backend.name, pattern.name, 0, -2, reason)

    def _in_coarse(self, op: Op) -> Iterator[NearMiss]:
        """The op in a coarse region."""
        candidate = node(op, self.infos)
        assert candidate is not None
        for backend in self.backends:
            for coarse in backend.coarse:
                failed = coarse.failing(candidate)
                if failed is None:
                    suggestion = force(candidate.info.name, f"{backend.name}.{coarse.name}")
                    yield NearMiss(backend.name, coarse.name, 1, 0, NOT_CHOSEN, suggestion)
                elif failed[0] >= -1:
                    yield _missed(backend, coarse.name, failed)

    def _as_follower(self, op: Op, value: Value, producer: Op) -> Iterator[NearMiss]:
        """The op reads the result of a partial match."""
        candidate = node(op, self.infos, value)
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
                failure
                for step in steps
                if name in step.names and (failure := step.failing(candidate)) is not None
            ]
            if failed:
                passed, unmet = max(failed)
                yield partial.miss(passed, unmet.after(f"after {last}, "))

    def _behind(self, op: Op, between: Op) -> Iterator[NearMiss]:
        """Another op stands between a partial match and the op."""
        name = _name(op, self.infos)
        for value in between.inputs:
            for partial in (
                self.ends.get(value.producer, ()) if value is not None and value.producer else ()
            ):
                if partial.takes(name) and not partial.takes(_name(between, self.infos)):
                    last = _name(partial.state.chain[-1], self.infos)
                    middle = _name(between, self.infos)
                    reason = f"{middle} stands between {last} and {name}"
                    suggestion = swap(name, middle) if middle == "relax.astype" else ""
                    yield partial.miss(-2, Unmet(reason, suggestion))


def _missed(backend: Backend, pattern: str, failed: tuple[int, Unmet]) -> NearMiss:
    passed, unmet = failed
    return NearMiss(backend.name, pattern, 0, passed, unmet.reason, unmet.suggestion)


def _before(pattern: Pattern, name: str) -> set[str]:
    """The operators that a step with this name may follow."""
    out: set[str] = set()
    for k, step in enumerate(pattern.steps):
        if name not in step.names:
            continue
        for j in range(k - 1, -1, -1):
            out |= pattern.steps[j].names
            if pattern.steps[j].least:
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
    (value,) = op.outputs
    suggestion = duplicate(_name(op, infos)) if value.uses else ""
    if value.pinned is not None:
        return Unmet(f"its result is also {value.pinned}", suggestion)
    if len(value.uses) > 1:
        return Unmet(f"its result is read by {len(value.uses)} operators, expected one", suggestion)
    if not value.uses:
        return Unmet("nothing reads its result")
    reader = value.uses[0]
    info = infos[reader].info
    if not isinstance(info, Refusal):
        return Unmet(f"{_name(reader, infos)} reads it in the layouts {buffer_layouts(info)}")
    return Unmet(f"{reader.name}, which is not recognised, reads it")
