"""A lowered module as backends see it: graphs, operators, matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relax

from ...analysis.answer.recovered import Recovered
from ...analysis.lifting.tir.node import NodeDict, substitute
from ...analysis.results.op_info import OpInfo, Refusal
from ...analysis.support.progress import stage
from ...layout.graph.call_extents import unequal_extents
from ...layout.graph.checked_module import check_module
from ...layout.graph.read_graph import graph
from ...layout.graph.relax_graph import Graph, Op
from ...layout.rewrite.func_proofs import FuncProofs
from ..backend.backend import Backend
from ..backend.flops import flops
from ..backend.guarded_calls import COST
from ..backend.match import Match
from ..backend.region import region
from ..patterns.dependences import Dependences, cycle, flows, joined
from ..patterns.elementwise_groups import Infos
from ..patterns.pattern import Pattern
from .asserted_copy import asserted_copy
from .match_rules import MatchRules
from .named_sizes import with_named_sizes

#: FLOPs per microsecond of TVM's default build, to cost ops that stay with TVM.
TVM_RATE = 2e3


@dataclass(frozen=True)
class Lowered:
    """A lowered module with its recovered operators.

    Attributes:
        mod: The module.
        functions: The graph of each Relax function.
        infos: What each call computes.
        flows: The dataflow blocks of each function; none if it mutates memory.
        proofs: What is proved about PrimFuncs.
    """

    mod: Any
    functions: Mapping[Any, Graph]
    infos: Infos
    flows: Mapping[Any, tuple[Dependences, ...]]
    proofs: FuncProofs

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
        """The estimated cost of each op with TVM, in microseconds."""
        return {op: flops(self.infos[op], op) / TVM_RATE for op in self.ops}

    def matches(self, backends: Sequence[Backend]) -> list[Match]:
        """All chains of all backends; they may overlap."""
        return [m for g in self.functions.values()
                for m in chains(g.ops, self.infos, backends)]  # fmt: skip

    def coarse(
        self, backends: Sequence[Backend], rules: MatchRules, chosen: Sequence[Match] = ()
    ) -> list[Match]:
        """The maximal coarse regions of all backends around chosen matches.

        They contain no chosen op, none that is forced elsewhere, and none on which the backend
        failed.
        """
        forced = rules.forced
        chosen_ops = {op for m in chosen for op in m.ops}
        out = []
        for gvar, function_graph in self.functions.items():
            blocks = [joined(f, [members for m in chosen if (members := f.set(m.ops))])
                      for f in self.flows[gvar]]  # fmt: skip
            for backend in backends:
                excluded = rules.excluded.of(backend.name)
                free = [
                    op
                    for op in function_graph.ops
                    if op not in chosen_ops
                    and op not in excluded
                    and (op not in forced or forced[op].backend == backend.name)
                ]
                for coarse in backend.coarse:
                    for ops in coarse.regions(blocks, free, self.infos):
                        out.append(match(backend, coarse.name, ops, self.infos))
        return out

    def ring(self, matches: Sequence[Match]) -> list[int] | None:
        """The numbers of matches that depend on each other cyclically; None if there are none."""
        for dependences in (f for blocks in self.flows.values() for f in blocks):
            sets = [dependences.set(m.ops) if len(m.ops) > 1 else 0 for m in matches]
            numbers = [k for k, s in enumerate(sets) if s]
            ring = cycle(dependences, [sets[k] for k in numbers])
            if ring is not None:
                return [numbers[k] for k in ring]
        return None


def read(mod: Any, what: str, proofs: FuncProofs | None = None) -> Lowered:
    """Read a lowered module and recover its operators.

    Args:
        mod: The module.
        what: The caller, for errors.
        proofs: What is proved about some of its PrimFuncs.

    Raises:
        ValueError: A variable is not defined, as `check_module` says.
    """
    check_module(mod, what)
    proofs = proofs or FuncProofs()
    functions = {g: _bounded(graph(mod, f), f, proofs.checked.get(g.name_hint, {}))
                 for g, f in mod.functions_items() if isinstance(f, relax.Function)}  # fmt: skip
    blocks = {g: () if x.mutates else tuple(flows(mod[g], x)) for g, x in functions.items()}
    ops = [op for g in functions.values() for op in g.ops]
    infos = {}
    for k, op in enumerate(ops):
        stage("recognising operators", k, len(ops))
        unequal = unequal_extents(op.func, op.call)
        infos[op] = Recovered(Refusal(unequal)) if unequal else _recovered(op.func, proofs)
        if not isinstance(infos[op].info, OpInfo) and (copy := asserted_copy(op.func)) is not None:
            op.outputs[0].within = copy.within
    return Lowered(mod, functions, infos, blocks, proofs)


def _bounded(function: Graph, func: Any, checked: Mapping[int, tuple[int, int]]) -> Graph:
    """The graph of a function, whose parameters have the bounds that callers check."""
    for k, (low, high) in checked.items():
        function.of[func.params[k]].within = float(low), float(high)
    return function


def _recovered(func: Any, proofs: FuncProofs) -> Recovered:
    """What a PrimFunc computes; computed sizes are variables meanwhile."""
    named = with_named_sizes(func)
    if named is not None:
        answer = proofs.analyse(named[0]).of(named[0])
        if isinstance(answer.info, OpInfo):
            attrs = {
                name: _with_sizes(value, named[1]) for name, value in answer.info.attrs.items()
            }
            return replace(answer, info=replace(answer.info, attrs=attrs))
    return proofs.analyse(func).of(func)


def _with_sizes(value: Any, sizes: NodeDict[Any]) -> Any:
    """An attribute over the sizes that variables stand for."""
    if isinstance(value, (tuple, list)):
        return type(value)(_with_sizes(v, sizes) for v in value)
    return substitute(value, sizes) if isinstance(value, tvm.ir.Expr) else value


def chains(ops: Sequence[Op], infos: Infos, backends: Sequence[Backend]) -> list[Match]:
    """The matches of all chain patterns of all backends.

    No call between the ops of a chain may write: it may overwrite a value that the chain would
    read later than its op did.
    """
    out = []
    for backend in backends:
        by_anchor: dict[str, list[Pattern]] = {}
        for pattern in backend.patterns:
            for name in pattern.steps[0].names:
                by_anchor.setdefault(name, []).append(pattern)
        for op in ops:
            for pattern in by_anchor.get(getattr(infos[op].info, "name", ""), ()):
                out += [
                    match(backend, pattern.name, chain, infos)
                    for chain in pattern.matches(op, infos)
                    if in_one_era(chain)
                ]
    return out


def in_one_era(ops: Sequence[Op]) -> bool:
    """Whether no call between some ops of a function, or the origins of variants, may write."""
    return len({(op.origin or op).era for op in ops}) == 1


def match(backend: Backend, pattern: str, ops: tuple[Op, ...], infos: Infos) -> Match:
    """The match of some ops, with its cost by the backend."""
    if backend.cost is None:
        return Match(backend.name, pattern, ops, COST)
    placed = region("", ops, infos, backend.merges, elements=False)
    return Match(backend.name, pattern, ops, backend.cost(placed.region))
