"""A lowered module as backends see it: graphs, operators, what matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import relax

from ...analysis.answer.analyser import Analyser
from ...analysis.results.op_info import OpInfo
from ...analysis.support.progress import stage
from ...layout.graph.relax_graph import Graph, Op, graph
from ...layout.graph.unused import check_defined
from ..backend.backend import Backend
from ..backend.flops import flops
from ..backend.guarded_calls import COST
from ..backend.match import Match
from ..backend.region import region
from ..patterns.dependences import Dependences, cycle, flows, joined
from ..patterns.elementwise_groups import Infos
from .match_rules import MatchRules

#: What an op costs that stays with TVM: its default build does so much in a microsecond.
TVM_RATE = 2e3


@dataclass(frozen=True)
class Lowered:
    """A module, what it calls, and what that computes."""

    mod: Any
    functions: Mapping[Any, Graph]
    infos: Infos
    flows: Mapping[Any, tuple[Dependences, ...]]
    analyse: Analyser

    @property
    def ops(self) -> list[Op]:
        return [op for g in self.functions.values() for op in g.ops]

    def name_of(self, op: Op) -> str:
        """The operator that was recognised."""
        info = self.infos[op].info
        assert isinstance(info, OpInfo)
        return info.name

    @cached_property
    def staying(self) -> dict[Op, float]:
        """What each op costs that stays with TVM, in microseconds."""
        return {op: flops(self.infos[op], op) / TVM_RATE for op in self.ops}

    def matches(self, backends: Sequence[Backend]) -> list[Match]:
        """All chains of all backends, overlapping ones too."""
        return [m for g in self.functions.values()
                for m in found(g.ops, self.infos, backends, g.mutates)]  # fmt: skip

    def coarse(
        self, backends: Sequence[Backend], rules: MatchRules, chosen: Sequence[Match] = ()
    ) -> list[Match]:
        """The maximal regions of all backends, beside those that are chosen, of ops that are free.

        An op is not free for a backend if it is forced elsewhere, or the backend failed on it.
        """
        forced = rules.forced
        taken = {op for m in chosen for op in m.ops}
        out = []
        for gvar, g in self.functions.items():
            blocks = [joined(f, [s for m in chosen if (s := f.set(m.ops))])
                      for f in self.flows[gvar]]  # fmt: skip
            for b in backends:
                excluded = rules.excluded.of(b.name)
                free = [op for op in g.ops if op not in taken and op not in excluded
                        and (op not in forced or forced[op].backend == b.name)]  # fmt: skip
                for c in b.coarse:
                    for ops in c.regions(blocks, free, self.infos):
                        out.append(match(b, c.name, ops, self.infos))
        return out

    def ring(self, matches: Sequence[Match]) -> list[int] | None:
        """Matches that need each other's results."""
        for f in (f for blocks in self.flows.values() for f in blocks):
            sets = [f.set(m.ops) if len(m.ops) > 1 else 0 for m in matches]
            there = [k for k, s in enumerate(sets) if s]
            found = cycle(f, [sets[k] for k in there])
            if found is not None:
                return [there[k] for k in found]
        return None


def read(mod: Any, what: str, analyse: Analyser | None = None) -> Lowered:
    """Raises as `check_defined` does. ``analyse`` knows what was analysed before."""
    check_defined(mod, what)
    functions = {g: graph(mod, f) for g, f in mod.functions_items()
                 if isinstance(f, relax.Function)}  # fmt: skip
    analyse = analyse or Analyser()
    blocks = {g: () if x.mutates else tuple(flows(mod[g], x)) for g, x in functions.items()}
    ops = [op for g in functions.values() for op in g.ops]
    infos = {}
    for k, op in enumerate(ops):
        stage("recognising operators", k, len(ops))
        infos[op] = analyse(op.func).of(op.func)
    return Lowered(mod, functions, infos, blocks, analyse)


def found(
    ops: Sequence[Op], infos: Infos, backends: Sequence[Backend], mutates: bool
) -> list[Match]:
    """All chains of all backends.

    ``mutates``: something may write what a chain reads between its first op and its last, where it
    is called; then each op is a chain alone.
    """
    out = []
    for b in backends:
        for op in ops:
            for p in b.patterns:
                chains = p.matches(op, infos)
                out += [match(b, p.name, c, infos) for c in chains if len(c) == 1 or not mutates]
    return out


def match(b: Backend, pattern: str, ops: tuple[Op, ...], infos: Infos) -> Match:
    if b.cost is None:
        return Match(b.name, pattern, ops, COST)
    made = region("", ops, infos, b.merges, elements=False)
    return Match(b.name, pattern, ops, b.cost(made.region))
