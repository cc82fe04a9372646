"""The certificate of an inverse, with its obligations."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from tvm.tirx import IndexMap

from ...terms.evaluate import evaluate
from ...terms.term import Int, Var
from ..engines.engines import EngineAnswer, discharge
from ..engines.goal import Goal, in_range, injective, left_inverse, right_inverse, same_volume
from ..maps.counterexample import Counterexample
from ..maps.to_terms import Map
from .inverse_table import InverseTable

InverseVerdict = Literal["bijective", "injective", "not_injective", "unknown"]


@dataclass(frozen=True)
class InverseProblem:
    """The question as terms: the map, the output variables and box, and the inverse."""

    map: Map
    ys: tuple[Var, ...] = ()
    box: tuple[Int, ...] | None = None
    inverse: tuple[Int, ...] | None = None

    def goal(self, name: str) -> Goal:
        """Return the obligation of that name."""
        assert self.box is not None or name in ("injective", "left_inverse")
        return _GOALS[name](self)


_GOALS: dict[str, Callable[[Any], Goal]] = {
    "left_inverse": lambda problem: left_inverse(problem.map, problem.ys, problem.inverse),
    "right_inverse": lambda problem: right_inverse(problem.map, problem.ys, problem.inverse),
    "range": lambda problem: in_range(problem.map, problem.box),
    "volume": lambda problem: same_volume(problem.map, problem.box),
    "injective": lambda problem: injective(problem.map),
}


@dataclass(frozen=True, eq=False)
class InverseCertificate:
    """The answer of `invert`.

    * ``verdict``: ``bijective`` (one-to-one and onto the box ``out_shape``), ``injective``
      (one-to-one; not shown to be onto), ``not_injective`` or ``unknown``, which permits nothing.
    * ``inverse``: an ``IndexMap`` or `InverseTable`, valid on the map's image; or None.
    * ``padding``: the outputs to which no point is mapped, as a predicate over
      ``inverse.initial_indices``; None if the map is onto, or no expression describes them.
    * ``out_shape``: the output box; by default the smallest that starts at 0.
    * ``obligations``: what was proved, and by which engine; ``reason``: why it is ``unknown``.
    """

    verdict: InverseVerdict
    index_map: IndexMap
    shape: tuple[Any, ...]
    out_shape: tuple[Any, ...] | None = None
    inverse: IndexMap | InverseTable | None = None
    padding: Any = None
    counterexample: Counterexample | None = None
    obligations: tuple[EngineAnswer, ...] = ()
    method: str = ""
    reason: str = ""
    problem: InverseProblem | None = field(default=None, repr=False)

    def check(self, *, timeout_ms: int = 5000) -> tuple[EngineAnswer, ...]:
        """Prove every proved obligation once more, by another engine.

        An answer says ``refuted`` if the engines disagree, and ``unknown`` if no other engine can
        decide.
        """
        if self.problem is None:
            return ()
        problem, out = self.problem, []
        for answer in self.obligations:
            if answer.verdict == "proved":
                replay = _REPLAYS.get(answer.name)
                out.append(
                    replay(self, answer)
                    if replay
                    else _prove_independently(problem.goal(answer.name), answer, timeout_ms)
                )
        return tuple(out)

    def __repr__(self) -> str:
        lines = [f"{self.verdict}: {self.index_map} over {list(self.shape)}"]
        for name in ("out_shape", "inverse", "padding", "counterexample", "reason"):
            value = getattr(self, name)
            if value is not None and value != "":
                lines.append(f"  {name}: {value}")
        return "\n".join(lines + [f"  {o!r}" for o in self.obligations])


_ORDER = ("numpy", "z3-bv", "z3-int", "tvm", "normal-form")


def _prove_independently(goal: Goal, answer: EngineAnswer, timeout_ms: int) -> EngineAnswer:
    others = [e for e in _ORDER if e != answer.engine]
    return discharge(goal, others, timeout_ms)[0]


def _replay_collision(certificate: InverseCertificate, answer: EngineAnswer) -> EngineAnswer:
    """The images of the counterexample's points, computed with terms."""
    assert certificate.problem is not None and certificate.counterexample is not None
    start = time.perf_counter()
    index_map, example = certificate.problem.map, certificate.counterexample
    sizes = dict(example.sizes)
    images = []
    for point in example.points:
        env = {
            axis: np.asarray(coordinate)
            for axis, coordinate in zip(index_map.axes, point, strict=True)
        }
        env.update({v: np.asarray(sizes[v.name]) for v, _ in index_map.sizes})
        inside = bool(evaluate(index_map.predicate, env)) and all(
            0 <= coordinate < int(evaluate(poly, env))
            for coordinate, poly in zip(point, index_map.extents, strict=True)
        )
        images.append((inside, *(int(evaluate(r, env)) for r in index_map.results)))
    same = images[0] == images[1] and images[0][0] and example.points[0] != example.points[1]
    ms = (time.perf_counter() - start) * 1e3
    return replace(answer, verdict="proved" if same else "refuted", engine="terms", ms=ms)


_REPLAYS = {"collision": _replay_collision}
