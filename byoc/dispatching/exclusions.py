"""The regions that failed in a dispatch, and the matches and operators excluded for it.

A chain that fails is not chosen again, nor one that contains it. An operator that is in `TRIES`
chains that fail is excluded from the backend. Layouts stay as they were chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend
from ..backend.match import Match
from ..backend.region import region
from ..codegen.call_converters import code
from ..matching.force import CannotForce
from ..patterns.failure import Failure, Fault, ForeignError
from .convert_regions import AssignedRegion
from .dispatch_request import DispatchRequest

#: Chains with an operator in them that may fail before the backend loses the operator.
TRIES = 3


class Exclusions:
    """Excludes failed regions from a request.

    Attributes:
        request: The request without the failed regions.
        reasons: Why an operator is not with the backend that would have had it.
    """

    def __init__(self, request: DispatchRequest) -> None:
        self.request = request
        self.backends = {b.name: b for b in request.backends}
        self.reasons: dict[Op, str] = {}
        self.failed: list[tuple[Failure, tuple[Op, ...]]] = []
        self.tries: Counter[tuple[str, Op]] = Counter()

    def add(self, regions: Sequence[AssignedRegion], faults: Mapping[str, Fault]) -> None:
        """Exclude the regions with faults, which are by symbol."""
        for assigned in regions:
            if assigned.symbol in faults:
                self._add(assigned.match, faults[assigned.symbol])

    def note(self, failures: Sequence[Failure]) -> None:
        """Remember failures that cost no region."""
        recorded = self.request.failures
        recorded += [f for f in dict.fromkeys(failures) if f not in recorded]

    def explained(self, error: CannotForce) -> CannotForce:
        """The error with the last failure, which is why the operator cannot go there."""
        return CannotForce(f"{error}; {self.failed[-1][0]}") if self.failed else error

    def failures(self, regions: Sequence[AssignedRegion]) -> tuple[Failure, ...]:
        """All failures; those of regions name the backends that have their operators now.

        The failure of a region is left out if a part of it was tried later and failed too.
        """
        now = {op: r.match.backend for r in regions for op in r.match.ops}
        sets = [(f.backend, set(ops)) for f, ops in self.failed]
        lost = [
            replace(failure, now=tuple(sorted({now.get(op, "tvm") for op in ops})))
            for failure, ops in self.failed
            if not any(b == failure.backend and part < set(ops) for b, part in sets)
        ]
        return (*self.request.failures, *lost)

    def _add(self, match: Match, fault: Fault) -> None:
        values = match.ops[-1].outputs
        functions = self.request.lowered.functions.items()
        function = next((str(g.name_hint) for g, x in functions if match.ops[0] in x.ops), "")
        failure = Failure(match.backend, fault.stage, fault.reason,
                          tuple(self.request.lowered.name_of(op) for op in match.ops),
                          values[0].name if values else "", f"pattern {match.pattern}",
                          function=function)  # fmt: skip
        self.failed.append((failure, match.ops))
        ops, rules = self._lost_ops(match, fault), self.request.rules
        excluded = rules.excluded
        excluded = (excluded.without(match.backend, ops) if ops
                    else excluded.without_chain(match.backend, match.ops))  # fmt: skip
        self.request = replace(self.request, rules=replace(rules, excluded=excluded))
        self.reasons.update(
            dict.fromkeys(ops or match.ops, str(replace(failure, ops=(), value="")))
        )

    def _lost_ops(self, match: Match, fault: Fault) -> Sequence[Op]:
        """The operators that the backend loses; none if smaller regions of them can be tried."""
        backend = self.backends[match.backend]
        if any(c.name == match.pattern for c in backend.coarse):
            bad = [
                op
                for op in match.ops
                if fault.stage == "convert" and not self._converts(backend, op)
            ]
            return bad or match.ops
        self.tries.update((match.backend, op) for op in match.ops)
        often = any(self.tries[match.backend, op] >= TRIES for op in match.ops)
        return match.ops if often or len(match.ops) == 1 else ()

    def _converts(self, backend: Backend, op: Op) -> bool:
        try:
            code(
                backend,
                [
                    region(
                        f"{backend.name}_0", [op], self.request.lowered.infos, backend.merges
                    ).region
                ],
            )
        except ForeignError:
            return False
        return True
