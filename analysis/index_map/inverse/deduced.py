"""Symbolic and large literal domains: an inverse is derived, then proved."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm.tirx import IndexMap

from ...proofs.solvers.verdict import Verdict
from ...terms.term import TRUE, Int, Term, Var, variable
from ..engines.engines import LITERAL, SYMBOLIC, EngineAnswer, discharge
from ..engines.goal import left_inverse
from ..engines.instances import find_collision, find_gap, sample_collision
from ..maps.counterexample import Counterexample
from ..maps.from_terms import to_tvm
from ..maps.to_terms import Map, Unsupported
from .candidate_inverses import Candidate, candidates
from .certificate import InverseCertificate, InverseProblem
from .enumerated import index_map_of, padding_of
from .tighten import symbolic_box, tight_box


@dataclass
class _Deduction:
    """The state of one question, which ends with a certificate."""

    index_map: Map
    shape: tuple[int, ...] | None
    timeout_ms: int
    obligations: list[EngineAnswer] = field(default_factory=list)

    @property
    def engines(self) -> tuple[str, ...]:
        return SYMBOLIC if self.shape is None else LITERAL

    def prove(self, problem: InverseProblem, name: str) -> Verdict:
        answer, verdict = discharge(problem.goal(name), self.engines, self.timeout_ms)
        self.obligations.append(answer)
        return verdict

    def box(self) -> tuple[Int, ...] | None:
        """Return the smallest box from 0 that is known to hold the image, or None."""
        if self.shape is not None:
            return tight_box(self.index_map, self.shape, self.timeout_ms)
        return symbolic_box(self.index_map)

    def inverse_or_collision(
        self, ys: tuple[Var, ...]
    ) -> tuple[Candidate | None, Counterexample | None]:
        """Return a proved inverse, or two points with the same image; neither if unknown."""
        guesses = list(candidates(self.index_map, ys))
        for candidate in guesses:
            if self._is_inverse(candidate, ys, ("normal-form",)):
                return candidate, None
        start = time.perf_counter()
        example = self.collision()
        if example is not None:
            ms = (time.perf_counter() - start) * 1e3
            self.obligations = [EngineAnswer("collision", "f(x) = f(z)", "proved", "numpy", ms)]
            return None, example
        for candidate in guesses:
            if self._is_inverse(candidate, ys, self.engines[1:]):
                return candidate, None
        return None, None

    def _is_inverse(
        self, candidate: Candidate, ys: tuple[Var, ...], engines: tuple[str, ...]
    ) -> bool:
        goal = left_inverse(self.index_map, ys, candidate[1])
        answer, verdict = discharge(goal, engines, self.timeout_ms)
        if verdict.proved:
            self.obligations.append(answer)
        return verdict.proved

    def collision(self) -> Counterexample | None:
        if self.shape is None:
            return find_collision(self.index_map)
        return sample_collision(self.index_map, self.shape)


def certify_by_deduction(
    index_map: Map, shape: tuple[Any, ...], out: tuple[Int, ...] | None, timeout_ms: int
) -> InverseCertificate:
    """Return the certificate of a map over a symbolic or large box."""
    work = _Deduction(index_map, index_map.literal_shape, timeout_ms)
    box = work.box() if out is None else out
    ys = tuple(
        variable("free", f"y{k}") if box is None else variable("axis", f"y{k}", box[k])
        for k in range(len(index_map.results))
    )
    candidate, example = work.inverse_or_collision(ys)
    if example is not None:
        return _not_injective(work, shape, box, example, InverseProblem(index_map, ys, box))
    if candidate is None:
        return _without_inverse(work, shape, InverseProblem(index_map, ys, box))
    return _with_inverse(
        work, shape, InverseProblem(index_map, ys, box, candidate[1]), candidate[0]
    )


def _not_injective(
    work: _Deduction,
    shape: tuple[Any, ...],
    box: tuple[Int, ...] | None,
    example: Counterexample,
    problem: InverseProblem,
) -> InverseCertificate:
    return InverseCertificate(
        "not_injective",
        work.index_map.source,
        shape,
        _shown(work.index_map, box),
        counterexample=example,
        obligations=tuple(work.obligations),
        problem=problem,
    )


def _without_inverse(
    work: _Deduction, shape: tuple[Any, ...], problem: InverseProblem
) -> InverseCertificate:
    """The certificate by proving injectivity itself, if no candidate is an inverse."""
    verdict = work.prove(problem, "injective")
    if verdict.refuted and verdict.counterexample is not None:
        example = _pair(work.index_map, verdict.counterexample)
        work.obligations = [EngineAnswer("collision", "f(x) = f(z)", "proved", verdict.engine, 0.0)]
        return _not_injective(work, shape, problem.box, example, problem)
    onto = verdict.proved and _onto(work, problem)
    return InverseCertificate(
        ("bijective" if onto else "injective") if verdict.proved else "unknown",
        work.index_map.source,
        shape,
        _shown(work.index_map, problem.box),
        obligations=tuple(work.obligations),
        reason="" if verdict.proved else verdict.reason,
        problem=problem,
    )


def _with_inverse(
    work: _Deduction, shape: tuple[Any, ...], problem: InverseProblem, method: str
) -> InverseCertificate:
    index_map = work.index_map
    inverse = index_map_of(problem.inverse or (), problem.ys, index_map)
    outside, onto = None, False
    if problem.box is not None:
        onto = _onto(work, problem)
        if not onto:
            outside, _ = find_gap(index_map, problem.box) if work.shape is None else (None, True)
    hidden = onto or outside is not None or problem.box is None
    return InverseCertificate(
        "bijective" if onto else "injective",
        index_map.source,
        shape,
        _shown(index_map, problem.box),
        inverse,
        None if hidden else _padding(problem, inverse),
        outside,
        tuple(work.obligations),
        method,
        problem=problem,
    )


def _onto(work: _Deduction, problem: InverseProblem) -> bool:
    """Whether f is onto: in range, and as many points as places or a right inverse."""
    index_map = work.index_map
    if problem.box is None or not work.prove(problem, "range").proved:
        return False
    if index_map.predicate is TRUE and work.prove(problem, "volume").proved:
        return True
    if problem.inverse is None or (work.shape is None and find_gap(index_map, problem.box)[1]):
        return False
    return work.prove(problem, "right_inverse").proved


def _padding(problem: InverseProblem, inverse: IndexMap) -> Any:
    try:
        return padding_of(problem, inverse)
    except Unsupported:
        return None


def _pair(index_map: Map, point: Mapping[Var, int]) -> Counterexample:
    """The two points of a refuted injectivity."""
    from ...terms.evaluate import evaluate

    names = {v.name: k for v, k in point.items()}
    points = tuple(
        tuple(names.get(f"{stem}{k}", 0) for k in range(len(index_map.axes))) for stem in "xz"
    )
    env: dict[Var, Any] = {a: x for a, x in zip(index_map.axes, points[0], strict=True)}
    env.update({s: point.get(s, 1) for s, _ in index_map.sizes})
    value = tuple(int(evaluate(r, env)) for r in index_map.results)
    sizes = tuple((v.name, int(env[s])) for s, v in index_map.sizes)
    return Counterexample("collision", points, (value, value), sizes)


def _shown(index_map: Map, box: tuple[Term, ...] | None) -> tuple[Any, ...] | None:
    """The box as integers and TVM expressions."""
    if box is None:
        return None
    leaves = dict(index_map.sizes)
    return tuple(
        term.const
        if isinstance(term, Int) and term.const is not None
        else to_tvm(term, leaves, index_map.dtype)
        for term in box
    )
