"""Forced operators: they go to one backend, whatever the priorities and costs.

    dispatch(mod, [A, B], force={"conv2d": "onednn", "matmul": "blas.dense", "softmax": "tvm"})

A key is an operator, with or without ``relax.`` and ``nn.``. Its value is a backend, a backend and
one of its patterns, or ``tvm``, which keeps the operator with TVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...analysis.results.op_info import OpInfo
from ...analysis.support.wording import did_you_mean
from ...layout.graph.relax_graph import Op
from ...layout.search.constraints import full
from ..backend.backend import Backend
from ..backend.match import Match
from ..patterns.elementwise_groups import Infos
from .diagnose import diagnose


class CannotForce(ValueError):
    """A forced operator cannot go to its backend; the message says which condition fails."""


@dataclass(frozen=True)
class Forced:
    """The backend of a forced operator, and the pattern if one was named."""

    backend: str
    pattern: str | None

    def allows(self, match: Match) -> bool:
        return match.backend == self.backend and self.pattern in (None, match.pattern)


def forced_ops(
    ops: Sequence[Op], infos: Infos, force: Mapping[str, str], backends: Sequence[Backend]
) -> dict[Op, Forced]:
    """The forced ops of a module. Raises ``ValueError`` for unknown names."""
    by_name = {b.name: b for b in backends}
    out: dict[Op, Forced] = {}
    for name, place in force.items():
        backend, _, pattern = place.partition(".")
        if backend not in {*by_name, "tvm"}:
            near = did_you_mean(backend, {*by_name, "tvm"})
            raise ValueError(f"force: {backend} is not a requested backend{near}")
        patterns = by_name[backend].pattern_names if backend in by_name else ()
        if pattern and pattern not in patterns:
            near = did_you_mean(pattern, patterns)
            raise ValueError(f"force: {backend} has no pattern {pattern}{near}")
        operator = full(name, "force")
        matching = [op for op in ops if _name(infos[op].operator) == operator]
        if not matching:
            raise ValueError(f"force: the module has no operator {name}")
        for op in matching:
            if out.setdefault(op, Forced(backend, pattern or None)).backend != backend:
                raise ValueError(f"force: {name} is forced to {out[op].backend} and to {backend}")
    return out


def _only(backend: Backend, pattern: str | None) -> Backend:
    """The backend with only this pattern; with all patterns if it is None."""
    if pattern is None:
        return backend
    chains = tuple(p for p in backend.patterns if p.name == pattern)
    return replace(
        backend, patterns=chains, coarse=tuple(c for c in backend.coarse if c.name == pattern)
    )


def _name(info: OpInfo | None) -> str | None:
    return None if info is None else info.name


def allowed(
    matches: Sequence[Match], forced: Mapping[Op, Forced], infos: Infos,
    backends: Sequence[Backend],
) -> list[Match]:  # fmt: skip
    """The matches that respect forced ops. Raises `CannotForce` if a forced op has none."""
    kept = [m for m in matches if all(op not in forced or forced[op].allows(m) for op in m.ops)]
    reached = {op for m in kept for op in m.ops}
    by_name = {b.name: b for b in backends}
    for op, place in forced.items():
        if place.backend == "tvm" or op in reached:
            continue
        (diagnosis,) = diagnose([op], infos, [_only(by_name[place.backend], place.pattern)])
        where = place.backend + (f", pattern {place.pattern}" if place.pattern else "")
        raise CannotForce(
            f"{diagnosis.op} ({diagnosis.name}) cannot go to {where}: {diagnosis.why}"
        )
    return kept
