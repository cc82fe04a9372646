"""Operators that must go to one backend, whatever the priorities and costs say.

    dispatch(mod, [A, B], force={"conv2d": "onednn", "matmul": "blas.dense", "softmax": "tvm"})

A name is that of an operator, with or without ``relax.`` and ``nn.``; what it is given is a
backend, or a backend and one of its patterns, or ``tvm``: the operator stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op
from ...layout.search.constraints import full
from ..backend.backend import Backend
from ..backend.match import Match
from ..patterns.elementwise_groups import Infos
from .diagnose import left_behind


class CannotForce(ValueError):
    """An op that must go to a backend cannot; the message names the op and the condition."""


@dataclass(frozen=True)
class Forced:
    """Where an op must go: a backend, and its pattern where one was asked for."""

    backend: str
    pattern: str | None

    def allows(self, m: Match) -> bool:
        return m.backend == self.backend and self.pattern in (None, m.pattern)


def forced_ops(
    ops: Sequence[Op], infos: Infos, force: Mapping[str, str], backends: Sequence[Backend]
) -> dict[Op, Forced]:
    """Where each op must go that is named. Raises ``ValueError`` for names that mean nothing."""
    known = {b.name: b for b in backends}
    out: dict[Op, Forced] = {}
    for name, place in force.items():
        backend, _, pattern = place.partition(".")
        if backend not in {*known, "tvm"}:
            raise ValueError(f"force: {backend} is not among the backends")
        if pattern and (backend == "tvm" or
                        pattern not in known[backend].pattern_names):  # fmt: skip
            raise ValueError(f"force: {backend} has no pattern {pattern}")
        wanted = full(name, "force")
        named = [op for op in ops if _name(infos[op].operator) == wanted]
        if not named:
            raise ValueError(f"force: no operator of the module is called {name}")
        for op in named:
            if out.setdefault(op, Forced(backend, pattern or None)).backend != backend:
                raise ValueError(f"force: {name} is given to {out[op].backend} and to {backend}")
    return out


def _only(b: Backend, pattern: str | None) -> Backend:
    """The backend with one of its patterns."""
    if pattern is None:
        return b
    chains = tuple(p for p in b.patterns if p.name == pattern)
    return replace(b, patterns=chains, coarse=tuple(c for c in b.coarse if c.name == pattern))


def _name(info: OpInfo | None) -> str | None:
    return None if info is None else info.name


def allowed(
    matches: Sequence[Match], forced: Mapping[Op, Forced], infos: Infos,
    backends: Sequence[Backend],
) -> list[Match]:  # fmt: skip
    """The matches that send no op elsewhere. Raises `CannotForce` if an op has none."""
    kept = [m for m in matches if all(op not in forced or forced[op].allows(m) for op in m.ops)]
    reached = {op for m in kept for op in m.ops}
    known = {b.name: b for b in backends}
    for op, f in forced.items():
        if f.backend == "tvm" or op in reached:
            continue
        (left,) = left_behind([op], infos, [_only(known[f.backend], f.pattern)])
        place = f.backend + (f", pattern {f.pattern}" if f.pattern else "")
        raise CannotForce(f"{left.op} ({left.name}) cannot go to {place}: {left.why}")
    return kept
