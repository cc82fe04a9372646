"""Run a model's checks of indices before the file that a runtime computes the model from.

A runtime that reports no index outside of its axis gets a file only where a call fails before it.

Before: raw = f(x); i = checked_index(raw); y = take(table, i), and a file of the same model
After:  raw = f(x); i = checked_index(raw); x1 = copy_after(x, i); y = file(x1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tvm import relax, te

from ...analysis.lifting.tir.node import items
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Graph, Op, Value
from ..patterns.clamped_values import COMPARISONS
from .asserted_copy import asserted_copy
from .lowered import Lowered

#: The elements that checks may compute a second time, also in a small model.
FEW = 1 << 14
#: The part of the model's elements that they may compute a second time.
SHARE = 1 / 16
#: TVM's ``op_pattern`` of what is not fused.
_OPAQUE = 8
#: Operators that give the same for floating point in all runtimes.
_EXACT = COMPARISONS | frozenset(f"relax.{n}" for n in (
    "reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "broadcast_to", "strided_slice",
    "concat", "split", "tile", "repeat", "flip", "take", "where", "astype", "floor", "ceil",
    "trunc", "abs", "negative"))  # fmt: skip
#: The integers to which code casts a number that is too large as their least one, which is outside
#: of an axis. Narrower ones may be inside then, and others in a runtime.
_WIDE = ("int32", "int64")


@dataclass(frozen=True)
class BorderChecks:
    """What a function computes before it calls a file.

    Attributes:
        params: The function's parameters.
        ops: The calls that compute what is checked, and the checks, in order.
        results: What the checks return.
    """

    params: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()
    results: tuple[Value, ...] = ()

    def emit(self, builder: Any, params: Sequence[Any]) -> list[Any]:
        """Emit the checks, and return the parameters: one is a copy that is made after them.

        Args:
            builder: The builder of a function.
            params: The parameters of the new function.
        """
        if not self.results:
            return list(params)
        exprs = dict(zip(self.params, params, strict=True))
        for op in self.ops:
            operands = relax.Tuple([exprs.get(v, v.expr) for v in op.inputs if v is not None])
            args = [builder.add_func(op.func, op.name), operands]
            call = builder.emit(relax.Call(op.call.op, args, op.call.attrs, op.call.ty_args))
            many = isinstance(op.call.ty, relax.TupleType)
            for k, value in enumerate(op.outputs):
                exprs[value] = builder.emit(relax.TupleGetItem(call, k)) if many else call
        k = min(range(len(params)), key=lambda k: math.prod(self.params[k].shape))
        copy = builder.emit_te(_copied, params[k], *(exprs[v] for v in self.results),
                               primfunc_name_hint="copy_after",
                               primfunc_attrs={"op_pattern": _OPAQUE})  # fmt: skip
        return [*params[:k], copy, *params[k + 1 :]]


def border_checks(lowered: Lowered) -> BorderChecks | str:
    """Return the checks of the module's ``main``; or why they cannot run before a file."""
    checks = [op for op in lowered.ops if asserted_copy(op.func) is not None]
    if not checks:
        return BorderChecks()
    gvar = next(g for g in lowered.functions if g.name_hint == "main")
    main, graph = lowered.mod[gvar], lowered.functions[gvar]
    params = tuple(graph.of[p] for p in main.params if p in graph.of)
    if not params or len(params) < len(main.params):
        return "an index is checked, and the model has no inputs, or one without a shape"
    if graph.mutates:
        return "an index is checked, and a function may write into its arguments"
    if not set(checks) <= set(_outer(main, graph)):
        return "an index is checked in a branch, or in a function that the model calls"
    ops = _leading_to(checks, graph, lowered)
    if isinstance(ops, str):
        return f"an index that is checked stems from {ops}"
    results = tuple(v for op in checks for v in op.outputs)
    if not _static((*params, *(v for op in ops for v in op.outputs))):
        return "an index is checked, and an extent is symbolic"
    count, of_model = _elements(ops), _elements(lowered.ops)
    if count > max(FEW, SHARE * of_model):
        return f"checks of indices compute {count} elements, of {of_model} of the model: too many"
    return BorderChecks(params, ops, results)


def _outer(main: Any, graph: Graph) -> list[Op]:
    """The calls of PrimFuncs that are not in branches."""
    bindings = [b for block in main.body.blocks for b in block.bindings]
    return [op for b in bindings if (op := graph.by_var.get(b.var)) is not None]


def _leading_to(checks: Sequence[Op], graph: Graph, lowered: Lowered) -> tuple[Op, ...] | str:
    """The calls that checks depend on, and the checks, in order; or what may not be among them."""
    todo, chosen = list(checks), set[Op]()
    while todo:
        op = todo.pop()
        if op in chosen:
            continue
        chosen.add(op)
        if (reason := _inexact(op, lowered)) is not None:
            return f"{op.name}{f' of node {op.node}' if op.node else ''}, which {reason}"
        for value in op.inputs:
            if value is not None and value.producer is not None:
                todo.append(value.producer)
            elif value is None or not (value.constant or value.parameter):
                name = "a size" if value is None else value.name
                return f"{name}, which PrimFuncs do not compute"
    return tuple(op for op in graph.ops if op in chosen)


def _inexact(op: Op, lowered: Lowered) -> str | None:
    """Why a runtime may compute another result; None for integers, and what only moves."""
    if len(op.call.args) > 2:
        return "has sizes as arguments"
    info = lowered.infos[op].info
    if asserted_copy(op.func) is not None:
        return None
    if not isinstance(info, OpInfo) or info.packed:
        return "was not recovered"
    floats = any("float" in v.dtype for v in op.values if v is not None)
    if floats and info.name not in _EXACT:
        return f"is {info.name} of floating point, which runtimes may round differently"
    if floats and info.name == "relax.astype" and "int" in (dtype := op.outputs[0].dtype):
        return None if dtype in _WIDE else f"casts floating point to {dtype}, which may wrap around"
    return None


def _static(values: Sequence[Value]) -> bool:
    return all(isinstance(extent, int) for value in values for extent in value.shape)


def _elements(ops: Sequence[Op]) -> int:
    """The elements that calls compute; symbolic extents count as 1."""
    shapes = [v.shape for op in ops for v in op.outputs]
    return sum(math.prod(e for e in shape if isinstance(e, int)) for shape in shapes)


def _copied(data: Any, *checked: Any) -> Any:
    """Return a copy of a tensor, whose code reads the others.

    TVM takes a PrimFunc that only moves one tensor for a reshape, and drops its other operands.
    """
    return te.extern(
        [data.shape], [data, *checked], lambda ins, outs: _copy_body(ins[0], ins[1:], outs[0]),
        dtype=str(data.dtype), name="copy_after")  # fmt: skip


def _copy_body(data: Any, checked: Sequence[Any], out: Any) -> Any:
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T

    with IRBuilder() as builder, T.seq_scope():
        for tensor in checked:
            with ExitStack() as loops:
                at = [loops.enter_context(T.serial(0, size)) for size in items(tensor.shape)]
                T.evaluate(tensor[tuple(at)])
        with ExitStack() as loops:
            at = [loops.enter_context(T.serial(0, size)) for size in items(data.shape)]
            T.buffer_store(out, data[tuple(at)], at)
    return builder.get()
