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
from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.warn import warn
from ...layout.graph.relax_graph import Op, Value
from ..backend.backend import Backend
from ..backend.catalog import unusable
from ..matching.lowered import Lowered, read
from ..patterns.pattern import Pattern
from ..patterns.pattern_node import node
from ..patterns.pattern_step import nothing
from ..patterns.subgraphs import Coarse
from .integers import DEQUANTIZE, SMALL, Integers, Scales
from .mutation.mutate import mutated, named, with_attrs


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


def quantised(mod: Any) -> bool:
    """Whether the module has a dequantize."""
    return any(named(call, n) for call in _calls(mod) for n in (DEQUANTIZE, GROUPED))


def parametrise_scales(mod: Any) -> ParametrisedScales:
    """The module with propagated QDQ, and its scales as parameters; ``mod`` is not changed."""
    writer, scales = Integers(mod), {}
    called = NodeDict[bool]()
    for call in _calls(mod):
        if isinstance(call.op, tvm.ir.GlobalVar):  # its parameters cannot change
            called[call.op] = True
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and gvar not in called:
            new, scales[str(gvar.name_hint)] = writer.function(func)
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
        used = {v for op, same in pairs if same in matched or _gathered(bound, same)
                for v in op.inputs}  # fmt: skip
        loose[name] = tuple(None if v in used else s
                            for v, s in zip(hidden, scales.get(name, ()), strict=True))  # fmt: skip
    kept = {n: tuple(s for s, free in zip(scales[n], loose[n], strict=True) if free is None)
            for n in scales}  # fmt: skip
    merged = _Merge(mod, parameters, bound, matched)
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
            if _named(lowered, op, DEQUANTIZE) and (data := op.values[0]) is not None
            and (data.constant or data.weight) and op.outputs[0].pinned is None
            and all(map(taken, (op, *op.outputs[0].uses)))
            and _is_exact(lowered, op.outputs[0], _axis(lowered, op))}  # fmt: skip


#: The axis of the scales of a dequantize: none if it has one scale, `ANY` if it is not known.
ANY = -1


def _axis(lowered: Lowered, op: Op) -> int | None:
    scales = op.values[1]
    if scales is None or all(e == 1 for e in scales.shape):
        return None
    info = lowered.infos[op].operator
    rank = len(op.outputs[0].shape)
    axis = None if info is None else info.attrs.get("axis")
    return int(axis) % rank if isinstance(axis, int) and rank else ANY


def _is_exact(lowered: Lowered, value: Value, axis: int | None) -> bool:
    """Whether runtimes compute with a dequantised constant as with its real numbers.

    In a product with a tensor that is not quantised, ONNX Runtime rounds the tensor to 8 bits; with
    scales along the axis that is summed, OpenVINO takes the first scale for all.
    """
    for op in value.uses:
        if _named(lowered, op, "relax.matmul", TRANSPOSED_MATMUL):
            place = next(k for k, v in enumerate(op.values) if v is value)
            other = op.values[1 - place]
            if other is None or other.producer is None:
                return False
            if not _named(lowered, _source(lowered, other.producer), DEQUANTIZE):
                return False
            summed = len(value.shape) - (2 if place else 1)
            plain = _named(lowered, op, "relax.matmul")
            if axis is not None and (axis in (ANY, summed) or not plain):
                return False
        elif _named(lowered, op, "relax.permute_dims", "relax.reshape", "relax.astype"):
            if not _is_exact(lowered, op.outputs[0], _moved(lowered, op, axis)):
                return False
    return True


def _moved(lowered: Lowered, op: Op, axis: int | None) -> int | None:
    """The axis of scales after a move."""
    if axis is None or _named(lowered, op, "relax.astype"):
        return axis
    info = lowered.infos[op].operator
    axes = info.attrs.get("axes") if info is not None else None
    if not _named(lowered, op, "relax.permute_dims") or axis == ANY:
        return ANY
    order = range(len(op.outputs[0].shape))[::-1] if axes is None else [int(a) for a in axes]
    return list(order).index(axis)


def _warn(lowered: Lowered, patterns: Sequence[Pattern], matched: set[Op]) -> None:
    """Warn of operators with quantised weights that run in floating point, and say why."""
    whys: Counter[str] = Counter()
    for op in lowered.ops:
        constants = [_source(lowered, v.producer) for v in op.inputs
                     if v is not None and v.weight and v.producer]  # fmt: skip
        moves = _source(lowered, op) is not op
        if op in matched or moves or not any(_small(lowered, w) for w in constants):
            continue
        anchor = node(op, lowered.infos)
        steps = [p.steps[0] for p in patterns if anchor and anchor.info.name in p.steps[0].names]
        failed = [failure for s in steps if anchor and (failure := s.failing(anchor)) is not None]
        if anchor and failed:
            whys[f"{anchor.info.name}: {max(failed)[1].reason}"] += 1
    for why, count in whys.items():
        subject = "1 quantised operator is" if count == 1 else f"{count} quantised operators are"
        warn(f"{subject} computed in floating point: {why}")


def _source(lowered: Lowered, op: Op) -> Op:
    """The op before casts and moves of its result."""
    while _named(lowered, op, "relax.astype", "relax.permute_dims", "relax.reshape"):
        value = op.values[0]
        if value is None or value.producer is None:
            break
        op = value.producer
    return op


def _small(lowered: Lowered, op: Op) -> bool:
    """Whether an op dequantizes integers of 8 bits or less."""
    value = op.values[0]
    small = value is not None and value.dtype in SMALL
    return _named(lowered, op, GROUPED) or (small and _named(lowered, op, DEQUANTIZE))


def _gathered(lowered: Lowered, op: Op) -> bool:
    """Whether only gathers read what an op dequantizes by group, so that few rows are computed."""
    if not _named(lowered, op, GROUPED) or len(op.outputs) != 1 or op.outputs[0].pinned is not None:
        return False
    (value,) = op.outputs
    return bool(value.uses) and all(
        _named(lowered, u, "relax.take") and u.values[0] is value for u in value.uses
    )


def _named(lowered: Lowered, op: Op, *names: str) -> bool:
    info = lowered.infos[op].operator
    return info is not None and info.name in (names or (DEQUANTIZE, GROUPED))


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


@relax.expr_functor.mutator
class _Merge(relax.PyExprMutator):  # type: ignore[misc]
    """Merge the copies of a dequantize that no pattern takes."""

    def __init__(self, mod: Any, graphs: Lowered, same: Lowered, matched: set[Op]) -> None:
        super().__init__(mod)
        self.free: NodeDict[bool] = NodeDict()
        self.seen: NodeDict[list[tuple[Any, Any]]] = NodeDict()
        for gvar, graph in graphs.functions.items():
            pairs = dict(zip(graph.ops, same.functions[gvar].ops, strict=True))
            for op, twin in pairs.items():
                if (
                    _named(same, twin)
                    and twin not in matched
                    and op.outputs
                    and op.outputs[0].expr is not None
                ):
                    self.free[op.outputs[0].expr] = True

    def visit_dataflow_block_(self, block: Any) -> Any:
        self.seen = NodeDict()
        return super().visit_dataflow_block_(block)

    def visit_var_binding_(self, binding: Any) -> None:
        if binding.var not in self.free or not isinstance(binding.var, relax.DataflowVar):
            super().visit_var_binding_(binding)
            return
        fields = items(binding.value.args[1].fields)
        first = next((e for e in fields if isinstance(e, relax.Var)), None)
        before = self.seen[first] if first in self.seen else []
        for call, var in before:
            if tvm_ffi.structural_equal(call, binding.value, map_free_vars=False):
                self.set_var_remap(binding.var, self.visit_expr(var))
                return
        super().visit_var_binding_(binding)
        if first is not None:
            self.seen[first] = [*before, (binding.value, binding.var)]
