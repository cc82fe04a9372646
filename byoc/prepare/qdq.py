"""Quantised operators before matching: integers that a backend takes stay integers.

Before: permute_dims(dequantize(w, s, z)), all of it a constant of float32 for FoldConstant
After:  dequantize(permute_dims(w), s, z), with w folded, for a backend that takes dequantize

- Layout-only and selecting operators move to the integers (`byoc.prepare.integers`). Each reader of
  a dequantize gets its own copy, because a region takes only producers that nothing else reads.
- The scale of a constant's dequantize is a parameter until patterns are matched, so nothing folds
  it. Afterwards, those that no pattern takes are folded, and unused copies are merged.
- Backends that take subgraphs only, as runtimes do, get constants as integers with their readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.composites.grouped import DEQUANTIZE as GROUPED
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.rewrite_functions import with_attrs
from ...analysis.support.warn import warn
from ...layout.graph.relax_graph import Op
from ...layout.graph.side_effects import Effect, SideEffects
from ..backend.backend import Backend
from ..backend.catalog import unusable
from ..matching.lowered import Lowered, read
from ..patterns.pattern import Pattern
from ..patterns.pattern_node import node
from ..patterns.pattern_step import nothing
from ..patterns.subgraphs import Coarse
from .dequantize_uses import (
    has_small_integers,
    is_exact,
    is_gathered,
    is_named,
    scale_axis,
    unmoved,
)
from .integers import DEQUANTIZE, Integers, Scales
from .merge_dequantize import MergeDequantize
from .mutation.mutate import mutated, named


@dataclass(frozen=True)
class ParametrisedScales:
    """A module, and for each function the scales that its last parameters stand for."""

    module: Any
    scales: Mapping[str, Scales]


@dataclass(frozen=True)
class ReadScales:
    """A lowered module with scales as parameters, and its operators: of no backend.

    Attributes:
        module: The module.
        scales: The scales of each function.
        parameters: The operators of the module.
        bound: The same operators where the scales are constants.
    """

    module: Any
    scales: Mapping[str, Scales]
    parameters: Lowered
    bound: Lowered


def read_scales(mod: Any, scales: Mapping[str, Scales]) -> ReadScales:
    """Read the operators of a lowered module whose last parameters are these scales."""
    parameters = read(mod, "prepare")
    bound = read(_bind(mod, scales), "prepare", parameters.proofs)
    return ReadScales(mod, scales, parameters, bound)


def taking(backends: Sequence[Backend]) -> list[tuple[Backend, Pattern]]:
    """The patterns with sources, of available backends."""
    patterns = [(b, p) for b in backends for p in b.patterns
             if any(s.takes is not nothing for s in p.steps)]  # fmt: skip
    usable = {id(b): unusable(b) is None for b, _ in patterns}  # dispatch reports the reason
    return [(b, p) for b, p in patterns if usable[id(b)]]


def runtimes(backends: Sequence[Backend]) -> list[Coarse]:
    """The subgraphs of available backends, if all of them only take subgraphs.

    Beside chains, what is chosen may read a constant that its backend would have to dequantise.
    """
    if not backends or any(b.patterns for b in backends):
        return []
    return [c for b in backends if unusable(b) is None for c in b.coarse
            if any(DEQUANTIZE in s.names for s in c.steps)]  # fmt: skip


def quantized(mod: Any) -> bool:
    """Whether the module has a dequantize."""
    return any(named(call, n) for call in _calls(mod) for n in (DEQUANTIZE, GROUPED))


def parametrise_scales(mod: Any) -> ParametrisedScales:
    """The module with propagated QDQ, and its scales as parameters; ``mod`` is not changed."""
    writer, scales = Integers(mod), {}
    called, effects = NodeDict[bool](), SideEffects(mod)
    for call in _calls(mod):
        if isinstance(call.op, tvm.ir.GlobalVar):  # its parameters cannot change
            called[call.op] = True
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and gvar not in called:
            new, scales[str(gvar.name_hint)] = writer.function(
                func, effects.of_function(func) > Effect.NONE)  # fmt: skip
            writer.builder_.update_func(gvar, new)
    out = with_attrs(writer.builder_.get(), mod)
    return ParametrisedScales(relax.transform.DeadCodeElimination()(out), scales)


def _calls(mod: Any) -> list[Any]:
    calls: list[Any] = []
    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.Call, calls.append))
    return calls


def bind_scales(
    known: ReadScales, backends: Sequence[Backend], fold: Callable[[Any], Any], relaid: bool
) -> Any:
    """The lowered module with its scales as constants again.

    Args:
        known: The module, whose operators were read.
        backends: The backends whose patterns may take a dequantize.
        fold: Folds the constants that no pattern takes.
        relaid: Layouts will be planned, so patterns may match in any layout.
    """
    mod, scales, parameters, bound = known.module, known.scales, known.parameters, known.bound
    patterns = [p.in_any_layout if relaid else p for _, p in taking(backends)]
    matched = _matched(bound, patterns) | _stored(bound, runtimes(backends))
    _warn(bound, patterns, matched)
    loose: dict[str, Scales] = {}
    for gvar, graph in parameters.functions.items():
        name, count = str(gvar.name_hint), len(scales.get(str(gvar.name_hint), ()))
        hidden = [graph.of[p] for p in mod[gvar].params[len(mod[gvar].params) - count :]]
        pairs = zip(graph.ops, bound.functions[gvar].ops, strict=True)
        used = {v for op, same in pairs if same in matched or is_gathered(bound, same)
                for v in op.inputs}  # fmt: skip
        loose[name] = tuple(None if v in used else s
                            for v, s in zip(hidden, scales.get(name, ()), strict=True))  # fmt: skip
    kept = {n: tuple(s for s, free in zip(scales[n], loose[n], strict=True) if free is None)
            for n in scales}  # fmt: skip
    merged = MergeDequantize(mod, parameters, bound, matched)
    return _bind(fold(_bind(mutated(mod, merged), loose)), kept)


def _matched(lowered: Lowered, patterns: Sequence[Pattern]) -> set[Op]:
    """The ops that patterns take together with others, in functions that mutate nothing."""
    pure = [g for g in lowered.functions.values() if not g.mutates]
    ops = [op for g in pure for op in g.ops]
    chains = (c for op in ops for p in patterns for c in p.matches(op, lowered.infos))
    return {op for chain in chains if len(chain) > 1 for op in chain}


def _stored(lowered: Lowered, subgraphs: Sequence[Coarse]) -> set[Op]:
    """The dequantised constants that a subgraph may take together with all their readers."""

    def taken(op: Op) -> bool:
        return any(c.why_not(op, lowered.infos) is None for c in subgraphs)

    pure = [g for g in lowered.functions.values() if not g.mutates]
    ops = [op for g in pure for op in g.ops] if subgraphs else []
    return {op for op in ops
            if is_named(lowered, op, DEQUANTIZE) and (data := op.values[0]) is not None
            and (data.constant or data.weight) and op.outputs[0].pinned is None
            and all(map(taken, (op, *op.outputs[0].uses)))
            and is_exact(lowered, op.outputs[0], scale_axis(lowered, op))}  # fmt: skip


def _warn(lowered: Lowered, patterns: Sequence[Pattern], matched: set[Op]) -> None:
    """Warn of operators with quantised weights that run in floating point, and say why."""
    whys: Counter[str] = Counter()
    for op in lowered.ops:
        constants = [unmoved(lowered, v.producer) for v in op.inputs
                     if v is not None and v.weight and v.producer]  # fmt: skip
        moves = unmoved(lowered, op) is not op
        if op in matched or moves or not any(has_small_integers(lowered, w) for w in constants):
            continue
        anchor = node(op, lowered.infos)
        steps = [p.steps[0] for p in patterns if anchor and anchor.info.name in p.steps[0].names]
        failed = [failure for s in steps if anchor and (failure := s.failing(anchor)) is not None]
        if anchor and failed:
            whys[f"{anchor.info.name}: {max(failed)[1].reason}"] += 1
    for why, count in whys.items():
        subject = "1 quantised operator is" if count == 1 else f"{count} quantised operators are"
        warn(f"{subject} computed in floating point: {why}")


def _bind(mod: Any, scales: Mapping[str, Scales]) -> Any:
    """The module with the last parameters bound to constants; None keeps a parameter."""
    out = mod.clone()
    for gvar, func in mod.functions_items():
        values = scales.get(str(gvar.name_hint), ())
        if isinstance(func, relax.Function) and any(s is not None for s in values):
            last = func.params[len(func.params) - len(values) :]
            bindings = {p: s for p, s in zip(last, values, strict=True) if s is not None}
            out.update_func(gvar, func.bind_params(bindings))
    return out
