"""A dispatch that is done again without what fails.

    choose → convert → a region fails → choose again without it → … → build → a region fails → …

A chain that fails is not taken again, nor one that has it inside; its ops that are in
`TRIES` chains that fail are lost to the backend. Layouts stay as they were chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...analysis.support.progress import stage
from ...layout.graph.relax_graph import Op
from ...layout.search.solve import NoSolution
from ..backend.backend import Backend, Code
from ..backend.match import Match
from ..backend.region import region
from ..codegen.call_converters import code, converted, converter
from ..codegen.probe import Unbuildable, culprits
from ..matching.force import CannotForce, allowed
from ..matching.lowered import Lowered
from ..matching.request import Asked
from ..patterns.failure import Failure, Fault, ForeignError, said
from .assemble import Handed, assembled, by_backend, handed, name_of, of_layouts
from .choose import Chosen, choose
from .dispatched import Dispatched
from .with_layouts import ModuleInLayouts

if TYPE_CHECKING:
    from ..measure.costs import Costing

#: Chains with an op in them that may fail before the op is left out.
TRIES = 3


class Attempt:
    """``lowered`` is what was asked for, ``here`` the same in the layouts of ``relaid``.

    ``failures`` are those of the backends so far. Called again it leaves out what was lost since.
    """

    def __init__(
        self, lowered: Lowered, here: Lowered, relaid: ModuleInLayouts | None, asked: Asked,
        backends: Sequence[Backend], costing: Costing | None, failures: list[Failure],
    ) -> None:  # fmt: skip
        self.lowered, self.here, self.relaid, self.asked = lowered, here, relaid, asked
        self.backends = {b.name: b for b in backends}
        self.costing, self.failures = costing, failures
        self.regions: list[Handed] = []
        self.reasons: dict[Op, str] = {}
        self.ops: list[tuple[Failure, tuple[Op, ...]]] = []
        self.tried: Counter[tuple[str, Op]] = Counter()

    def done(self) -> Dispatched:
        """The module with the best regions that convert. Raises `CannotForce`."""
        backends = list(self.backends.values())
        while True:
            stage("choosing backends")
            try:
                best = best_of(self.here, self.asked, backends, self.costing)
            except CannotForce as e:
                raise self.forced(e) from e
            taken = [m for m in best.matches if m.backend != "tvm"]
            self.regions = handed(self.here, taken, backends)
            codes, wrong = self.code()
            if not wrong:
                return self.assembled(codes, best.solution.status)
            self.lose(wrong)

    def code(self) -> tuple[list[Code], dict[str, Fault]]:
        """That of all regions, and what is wrong with them."""
        codes: list[Code] = []
        wrong: dict[str, Fault] = {}
        backends = by_backend(self.regions)
        for k, (name, mine) in enumerate(backends.items()):
            stage("generating code of backend", k, len(backends))
            made, bad, together = converted(self.backends[name], mine)
            codes += made
            wrong |= bad
            if together is not None and not bad:
                reason = f"{together.reason}; each region is converted alone"
                self.note(Failure(name, together.stage, reason))
        return codes, wrong

    def assembled(self, codes: Sequence[Code], status: str) -> Dispatched:
        reasons = {} if self.costing is None else self.costing.reasons
        done = assembled(self.here, self.regions, codes, list(self.backends.values()), status,
                         {**reasons, **self.reasons})  # fmt: skip
        timings = () if self.costing is None else tuple(self.costing.timings)
        if self.costing is not None:
            pairs = zip(done.taken, self.regions, strict=True)
            taken = tuple(replace(t, microseconds=h.match.cost) for t, h in pairs)
            done = replace(done, taken=taken)
        done = of_layouts(done, self.lowered, self.relaid)
        return replace(done, timings=timings, failed=self.told())

    def diagnose(self, error: Exception) -> bool:
        """Lose the regions of the last result that do not build; False if there are none.

        ``error`` is what building all of it raised.
        """
        if not self.regions:
            return False
        by_symbol = {h.symbol: self.backends[h.match.backend] for h in self.regions}
        try:
            regions = [h.placed.region for h in self.regions]
            wrong = culprits(regions, converter(by_symbol), error)
        except Unbuildable:
            return False
        if not wrong:
            fault = Fault("build", f"{said(error)} (with what TVM generates)")
            wrong = dict.fromkeys(by_symbol, fault)
        self.lose(wrong)
        return True

    def lose(self, wrong: Mapping[str, Fault]) -> None:
        """Choose without these regions from now on."""
        for h in self.regions:
            if h.symbol in wrong:
                self.lose_region(h.match, wrong[h.symbol])

    def lose_region(self, m: Match, fault: Fault) -> None:
        names = tuple(name_of(self.here, op) for op in m.ops)
        values = m.ops[-1].outputs
        failure = Failure(m.backend, fault.stage, fault.reason, names,
                          values[0].name if values else "", f"pattern {m.pattern}")  # fmt: skip
        self.ops.append((failure, m.ops))
        gone = self.gone(m, fault)
        lost = self.asked.lost.without(m.backend, gone) if gone else (
            self.asked.lost.apart(m.backend, m.ops))  # fmt: skip
        self.asked = replace(self.asked, lost=lost)
        self.reasons.update(dict.fromkeys(gone or m.ops, str(replace(failure, ops=(), value=""))))

    def gone(self, m: Match, fault: Fault) -> Sequence[Op]:
        """The ops that the backend cannot have any more; none if smaller regions are tried."""
        b = self.backends[m.backend]
        if any(c.name == m.pattern for c in b.coarse):
            bad = [op for op in m.ops if fault.stage == "convert" and not self.converts(b, op)]
            return bad or m.ops
        self.tried.update((m.backend, op) for op in m.ops)
        often = any(self.tried[m.backend, op] >= TRIES for op in m.ops)
        return m.ops if often or len(m.ops) == 1 else ()

    def converts(self, b: Backend, op: Op) -> bool:
        try:
            code(b, [region(f"{b.name}_0", [op], self.here.infos, b.merges).region])
        except ForeignError:
            return False
        return True

    def note(self, failure: Failure) -> None:
        if failure not in self.failures:
            self.failures.append(failure)

    def forced(self, e: CannotForce) -> CannotForce:
        """With what failed before, as that is why it cannot be."""
        return CannotForce(f"{e}; {self.ops[-1][0]}") if self.ops else e

    def told(self) -> tuple[Failure, ...]:
        """All failures; those of regions with who has their ops now.

        Not those of a region of which a part was tried later and failed too.
        """
        now = {op: h.match.backend for h in self.regions for op in h.match.ops}
        sets = [(f.backend, set(ops)) for f, ops in self.ops]
        lost = [
            replace(f, now=tuple(sorted({now.get(op, "tvm") for op in ops})))
            for f, ops in self.ops
            if not any(b == f.backend and part < set(ops) for b, part in sets)
        ]
        return (*self.failures, *lost)


def best_of(
    lowered: Lowered, asked: Asked, backends: Sequence[Backend], costing: Costing | None
) -> Chosen:
    """The best of all chains and of all coarse regions, also of what a choice leaves behind."""
    found = [*lowered.matches(backends), *lowered.coarse(backends, asked)]
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
        rest = lowered.coarse(backends, asked, taken)
        known = {(m.backend, m.pattern, m.ops) for m in seen}
        more = [m for m in filter(asked.usable, rest)
                if (m.backend, m.pattern, m.ops) not in known]  # fmt: skip
        if not more:
            return best
        matches = seen = [*seen, *more]
