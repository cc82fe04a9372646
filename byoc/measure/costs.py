"""Measured costs of matches, and of TVM's own code for the same operators.

cost of a match      measured, or it is not offered
TVM, by operator     measured alone: the cost of an op that stays with TVM
TVM, fused           matches of ``tvm``: the ops of each match, the chain that TVM fuses them
                     into, and the ops of that chain that the match does not cover
not measured in time the expected cost, unless what was measured of that backend has all the ops
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import fmean

from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend
from ..backend.match import Match
from ..calibration.calibrated_costing import tvm_cost
from ..calibration.cost_model import ESTIMATED, MEASURED
from ..calibration.prune_matches import Pruning
from ..matching.tvm_chains import Ops, fused_chains
from ..patterns.elementwise_groups import Infos
from .candidate import TVM, Candidate, ConverterFailed, by_backend, by_tvm
from .measure import Measure
from .measured import Excluded, Measured, Result, Timing
from .run_candidates import results
from .subject import Extents, NotMeasurable, Subject, subject
from .timing_key import Key


class Costing:
    """Measures matches of some ops; a call returns the matches that may be chosen.

    After the call, ``tvm_times`` has TVM's time by op in microseconds where it could be measured
    (with ``pruning``, else its calibrated cost), ``reasons`` says by op why the longest match with
    it was excluded; ``timings`` has all times.
    """

    def __init__(
        self, ops: Sequence[Op], infos: Infos, backends: Sequence[Backend], how: Measure,
        pruning: Pruning | None = None,
    ) -> None:  # fmt: skip
        self.ops, self.infos, self.pruning = ops, infos, pruning
        self.candidates = _Candidates(infos, {b.name: b for b in backends}, how)
        self.new: set[Key] = set()
        self.results: dict[Key, Result] = {}
        self.tvm_times: dict[Op, float] = {}
        self.reasons: dict[Op, str] = {}
        self.timings: list[Timing] = []

    def __call__(self, matches: Sequence[Match]) -> list[Match]:
        """Measure unknown candidates. Raises `MeasureError` if measuring is impossible."""
        if not matches:
            return []
        calibrated: dict[Op, float] = {}
        timed = set(self.ops)
        if self.pruning is not None:
            calibrated = self.pruning.tvm_costs(self.ops, self.infos)
            timed = self.pruning.by_tvm(matches, calibrated)
            matches = self.pruning.worthwhile(matches, calibrated)
        fused = [c for c in fused_chains(matches, self.infos) if timed.issuperset(c)]
        singles: list[Ops] = [(op,) for op in self.ops if op in timed]
        for chain in (*singles, *fused):
            self.candidates.add(TVM, chain)
        for match in matches:
            self.candidates.add(match.backend, match.ops)
        self.measure(matches)
        by_op = {op: self.cost(TVM, (op,)) for (op,) in singles}
        self.tvm_times = calibrated | {
            op: r.microseconds for op, r in by_op.items() if isinstance(r, Measured)
        }
        return [*self.usable(matches), *self.fused(fused)]

    def measure(self, matches: Sequence[Match]) -> None:
        """Measure what is unknown, and warn if time does not suffice for all of it."""
        how, unique = self.candidates.how, {c.key: c for c in self.candidates.all}
        missing = [c for c in unique.values() if c.key not in self.results]
        if how.seconds is not None:
            missing = self.costly_first(missing, matches)
        measured, stored = results(missing, how)
        self.results |= measured
        self.new |= measured.keys() - stored
        timed = [c for c in unique.values() if c.key in self.results]
        self.timings = list(map(self.timing, timed))
        if len(timed) < len(unique):
            warnings.warn(
                f"measuring ended after {how.seconds:g} s: of {len(unique)} candidates "
                f"{len(timed)} are measured; the others cost what is expected",
                stacklevel=2,
            )

    def costly_first(
        self, missing: Sequence[Candidate], matches: Sequence[Match]
    ) -> list[Candidate]:
        """Candidates of backends, first those that cost the most in the model, then TVM's."""
        costs: defaultdict[Key, float] = defaultdict(float)
        for match in matches:
            candidates = self.candidates.by_ops[match.backend, match.ops]
            for candidate in [] if isinstance(candidates, Excluded) else candidates:
                costs[candidate.key] += match.cost

        def order(candidate: Candidate) -> tuple[bool, float, int]:
            subject = candidate.subject
            size = sum(prod(b.shape) for b in (*subject.buffers, *subject.results))
            return candidate.key.backend == TVM, -costs[candidate.key], -size

        return sorted(missing, key=order)

    def usable(self, matches: Sequence[Match]) -> Iterator[Match]:
        self.reasons = {}
        pairs = [
            (m, self.cost(m.backend, m.ops)) for m in sorted(matches, key=lambda m: len(m.ops))
        ]
        measured = {(m.backend, op) for m, r in pairs if isinstance(r, Measured) for op in m.ops}
        for match, result in pairs:
            if isinstance(result, Measured):
                yield replace(match, cost=result.microseconds)
            elif result is None:
                if any((match.backend, op) not in measured for op in match.ops):
                    yield match
            else:
                why = f"{match.backend}, pattern {match.pattern}: {result.reason}"
                self.reasons.update(dict.fromkeys(match.ops, why))

    def fused(self, chains: Sequence[Ops]) -> Iterator[Match]:
        for chain in chains:
            result = self.cost(TVM, chain)
            if isinstance(result, Measured):
                yield Match(TVM, "fused", chain, result.microseconds)

    def cost(self, backend: str, ops: Ops) -> Result | None:
        """The cost of ops with a backend; None if it is not measured."""
        candidates = self.candidates.by_ops[backend, ops]
        if isinstance(candidates, Excluded):
            return candidates
        here = [self.results.get(c.key) for c in candidates]
        wrong = next((r for r in here if isinstance(r, Excluded)), None)
        times = [r.microseconds for r in here if isinstance(r, Measured)]
        return wrong or (Measured(fmean(times)) if len(times) == len(here) else None)

    def source(self, backend: str, ops: Ops) -> str:
        """Where the cost of ops with a backend or ``tvm`` comes from, as `Estimate` says."""
        known = (backend, ops) in self.candidates.by_ops
        if known and self.cost(backend, ops) is None:
            return ESTIMATED
        if backend != TVM or known:
            return MEASURED
        if self.pruning is None:
            return ESTIMATED
        return tvm_cost(ops, self.infos, self.pruning.model).source

    def timing(self, candidate: Candidate) -> Timing:
        names = _names(candidate.subject.ops, self.infos)
        stored = candidate.key not in self.new
        return Timing(
            candidate.key.backend, names, candidate.key.shapes, self.results[candidate.key], stored
        )


class _Candidates:
    """Candidates by backend and ops, one for each assignment of extents."""

    def __init__(self, infos: Infos, backends: Mapping[str, Backend], how: Measure) -> None:
        self.infos, self.backends, self.how = infos, backends, how
        self.subjects: dict[Ops, list[Subject] | Excluded] = {}
        self.by_ops: dict[tuple[str, Ops], list[Candidate] | Excluded] = {}

    def add(self, name: str, ops: Ops) -> None:
        if (name, ops) not in self.by_ops:
            self.by_ops[name, ops] = self._candidates(name, ops)

    def _candidates(self, name: str, ops: Ops) -> list[Candidate] | Excluded:
        if ops not in self.subjects:
            self.subjects[ops] = _subjects(ops, self.how.points)
        subjects = self.subjects[ops]
        if isinstance(subjects, Excluded):
            return subjects
        machine = self.how.machine
        if name == TVM:
            return [by_tvm(s, machine) for s in subjects]
        backend = self.backends[name]
        try:
            return [by_backend(backend, ops, self.infos, s, machine) for s in subjects]
        except ConverterFailed as error:
            return Excluded(str(error))

    @property
    def all(self) -> list[Candidate]:
        lists = (c for c in self.by_ops.values() if not isinstance(c, Excluded))
        return [c for candidates in lists for c in candidates]


def _subjects(ops: Ops, points: Sequence[Extents]) -> list[Subject] | Excluded:
    try:
        subjects = [subject(ops, at) for at in points]
    except NotMeasurable as error:
        return Excluded(str(error))
    return list({s.buffers: s for s in subjects}.values())


def _names(ops: Ops, infos: Infos) -> tuple[str, ...]:
    recovered = ((op, infos[op].operator) for op in ops)
    return tuple(op.name if info is None else info.name for op, info in recovered)
