"""Calls of a backend's functions that contain the damage if one raises.

    condition, takes    the pattern does not take the operator
    cost                the region has the default cost
    wants               the backend wants no layouts
    version             the backend has no version
    conversion          conversions of layouts cost nothing
    eight_bits          the backend takes no product of 8-bit numbers

Each failure is recorded once as a `Failure`; that of ``eight_bits`` is the reason why a product is
not taken. Conditions and sources depend on the node alone, so they are called once for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from math import isfinite
from types import NoneType
from typing import Any

from ...layout.graph.relax_graph import Op
from ...layout.search.constraints import check
from ..patterns.failure import Failure, ForeignError, foreign
from ..patterns.pattern import Condition, Node, Pattern, PatternStep
from ..patterns.pattern_step import Sources, name_of, nothing, unmet
from ..patterns.subgraphs import Coarse
from ..patterns.suggest import Unmet
from .backend import Backend
from .region import Region
from .sized_region import sized

#: The default cost of a region in microseconds.
COST = 0.0


def guarded(backend: Backend, failures: list[Failure]) -> Backend:
    """The backend with guarded functions; failures are appended to ``failures``."""
    return _GuardedFunctions(backend, failures).backend()


class _GuardedFunctions:
    """Wraps the functions of a backend: an exception becomes a failure and a safe default."""

    def __init__(self, backend: Backend, failures: list[Failure]) -> None:
        self.wrapped, self.failures = backend, failures
        self.seen: set[tuple[str, str, str]] = set()
        self.results: dict[Hashable, Any] = {}

    def once(self, function: Callable[[Node], Any], node: Node) -> Any:
        """The result of a function of a node; several patterns, and steps of one, ask for it."""
        # Objects that live as long as the patterns: they may not be hashable.
        part, owner = (
            getattr(function, k, d) for k, d in (("__func__", function), ("__self__", 0))
        )
        key = (id(part), id(owner), node.op, id(node.chain), node.ops)
        if key not in self.results:
            self.results[key] = function(node)
        return self.results[key]

    def backend(self) -> Backend:
        backend = self.wrapped
        return replace(
            backend,
            patterns=tuple(Pattern(p.name, *self.steps(p)) for p in backend.patterns),
            coarse=tuple(Coarse(c.name, *self.steps(c)) for c in backend.coarse),
            cost=None if backend.cost is None else self.cost,
            wants=self.wants(),
            version=self.version,
            conversion=None if backend.conversion is None else self.conversion,
            eight_bits=None if backend.eight_bits is None else self.eight_bits,
        )

    def failed(self, stage: str, reason: str, rule: str = "", ops: Sequence[str] = ()) -> None:
        """Record a failure once for each function and reason, with the first operators."""
        if (stage, rule, reason) not in self.seen:
            self.seen.add((stage, rule, reason))
            names = f" of {', '.join(ops)}" if ops else ""
            self.failures.append(Failure(self.wrapped.name, stage, reason, rule=f"{rule}{names}"))

    def steps(self, pattern: Pattern | Coarse) -> list[PatternStep]:
        return [
            replace(
                step,
                conditions=tuple(self.condition(pattern.name, c) for c in step.conditions),
                laid=tuple(self.condition(pattern.name, c) for c in step.laid),
                takes=step.takes if step.takes is nothing else self.takes(pattern.name, step.takes),
            )
            for step in pattern.steps
        ]

    def condition(self, pattern: str, condition: Condition) -> Condition:
        def checked(node: Node) -> Unmet | None:
            try:
                with foreign():
                    return unmet(condition, self.once(condition, node))
            except ForeignError as error:
                rule = f"pattern {pattern}, condition {name_of(condition)}"
                self.failed("condition", str(error), rule, [node.info.name])
                return Unmet(f"the condition {name_of(condition)} failed: {error}")

        return checked

    def takes(self, pattern: str, takes: Sources) -> Sources:
        def checked(node: Node) -> Sequence[Op]:
            try:
                with foreign():
                    sources = tuple(self.once(takes, node))
                    wrong = next((x for x in sources if not isinstance(x, Op)), None)
                    if wrong is not None:
                        raise TypeError(f"it returned {wrong!r} among the sources, expected an Op")
                return sources
            except ForeignError as error:
                rule = f"pattern {pattern}, takes {name_of(takes)}"
                self.failed("takes", str(error), rule, [node.info.name])
                return ()

        return checked

    def cost(self, region: Region) -> float:
        names = [c.op for c in region.calls]
        assert self.wrapped.cost is not None
        try:
            with foreign():
                return _microseconds(self.wrapped.cost(sized(region)))
        except ForeignError as error:
            reason = f"{error}; the default cost of {COST:g} is used"
            self.failed("cost", reason, f"cost {name_of(self.wrapped.cost)}", names)
            return COST

    def conversion(self, moved: float) -> float:
        assert self.wrapped.conversion is not None
        try:
            with foreign():
                return _microseconds(self.wrapped.conversion(moved))
        except ForeignError as error:
            self.failed("conversion", f"{error}; the default cost of {COST:g} is used")
            return COST

    def eight_bits(self, *product: Any) -> str | None:
        assert self.wrapped.eight_bits is not None
        try:
            with foreign():
                reason = self.wrapped.eight_bits(*product)
                if not isinstance(reason, (str, NoneType)):
                    raise TypeError(f"it returned {reason!r}, expected None or why not")
            return reason
        except ForeignError as error:
            return f"eight_bits of {self.wrapped.name} failed: {error}"

    def wants(self) -> dict[str, Sequence[str]]:
        try:
            with foreign():
                wants = dict(self.wrapped.wants)
                check({op: layouts for op, layouts in wants.items() if layouts})
            return wants
        except ForeignError as error:
            self.failed("wants", str(error))
            return {}

    def version(self) -> str:
        try:
            with foreign():
                version = self.wrapped.version()
                if not isinstance(version, str):
                    raise TypeError(f"it returned {version!r}, expected a string")
            return version
        except ForeignError as error:
            self.failed("version", str(error))
            return ""


def _microseconds(time: Any) -> float:
    """A time that a backend returned. Raises ``TypeError`` or ``ValueError`` if it is not one."""
    if isinstance(time, bool) or not isfinite(time) or time < 0:
        raise ValueError(f"it returned {time!r}, expected microseconds of at least 0")
    return float(time)
