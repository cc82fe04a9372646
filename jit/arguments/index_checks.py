"""Check indices that a model computes: a call fails where one is outside of its axis.

Before: `index = f(x)`, `y = R.take(table, index)`; after: `raw = f(x)`,
`index = R.call_tir(checked_index, (raw,))`, `y = R.take(table, index)`, where the PrimFunc asserts
that elements are inside and copies them. Where the index cannot be checked when it is bound, the
read gets a checked copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax, te, tirx

from ...analysis.support.origin import node_of
from ..indices.element_bounds import ElementBounds
from ..indices.index_origins import Origin, origin
from ..indices.index_reads import IndexRead, reads
from .index_ranges import origins_at_call
from .signature import variable_names

#: TVM's ``op_pattern`` of what is not fused.
_OPAQUE = 8


def checked_indices(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module that fails where an index is outside; `mod` is not modified.

    Not checked are indices that are proved to be inside, constants, and parameters of exported
    functions that are read at in each call, which are checked at the call, unless other functions
    of the module call them. The code is for CPUs.

    Args:
        mod: A module before it is lowered.
    """
    builder = relax.BlockBuilder(mod)
    changed, called = {}, called_functions(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            body = _IndexChecks(func, builder, gvar not in called).body()
            if not body.same_as(func.body):
                changed[gvar] = relax.Function(func.params, body, func.ret_ty, func.is_pure,
                                               func.attrs)  # fmt: skip
    if not changed:
        return mod
    out = builder.get()
    for gvar, func in out.functions_items():
        if gvar not in mod.functions:  # nothing may be fused into a check
            out.update_func(gvar, func.with_attr("op_pattern", _OPAQUE))
    for gvar, func in changed.items():
        out.update_func(gvar, func)
    return out.with_attrs(mod.attrs) if mod.attrs else out


class _IndexChecks:
    """The checks of one function, and whether only calls from outside of the module run it."""

    def __init__(self, func: Any, builder: relax.BlockBuilder, outer: bool) -> None:
        self._builder = builder
        self._values: dict[Any, Any] = {}
        _collect(func.body, self._values)
        self._tops = {b.var for block in func.body.blocks for b in block.bindings
                      if isinstance(b, relax.VarBinding)}  # fmt: skip
        outer = outer and "global_symbol" in (func.attrs or {})
        self._func, self._names = func, variable_names(func)
        at_call = origins_at_call(func, self._names) if outer else ()
        self._inside = [start for start, *_ in at_call]
        self._bounds = ElementBounds(self._values, self._inside)

    def body(self) -> Any:
        """Return the body of the function with checks, or the same one if it needs none.

        What several reads of the top have their elements from is checked once, where it is
        computed: `raw = f(x)`, `i = R.call_tir(checked_index, (raw,))`.
        """
        body = self._func.body
        found: dict[Any, list[tuple[Origin, str]]] = {}
        for binding in (b for block in body.blocks for b in block.bindings):
            for read in reads(binding.value):
                start = origin(read, binding.value, self._values)
                if self._may_hoist(start) and not self._is_inside(start):
                    found.setdefault(start.tensor, []).append((start, _reader(binding)))
        self._inside += [start for each in found.values() for start, _ in each]
        return self.sequence(body, found)

    def _may_hoist(self, start: Origin) -> bool:
        """Return whether a tensor is computed where the sizes of its range are known."""
        ends = (v for end in (start.low, start.high) for v in tirx.analysis.undefined_vars(end))
        computed = isinstance(start.tensor, relax.Var) and start.tensor in self._tops
        if not computed or not isinstance(start.tensor.ty.shape, relax.ShapeExpr):
            return False
        plain = start.component is None and start.also is None
        return plain and all(v in self._names for v in ends)

    def sequence(self, seq: Any, found: Mapping[Any, Any] = MappingProxyType({})) -> Any:
        """Return a sequence of bindings with checks, or the same one if it needs none.

        Args:
            seq: The sequence.
            found: Tensors that are checked where they are bound, with their ranges and readers.
        """
        blocks, changed = [], False
        for block in seq.blocks:
            bindings: list[Any] = []
            for binding in block.bindings:
                dataflow = isinstance(block, relax.DataflowBlock)
                bindings += self._checked(binding, dataflow)
                if binding.var in found:
                    bindings[-1:] = self._hoisted(bindings[-1], found[binding.var], dataflow)
            same = _same(bindings, block.bindings)
            blocks.append(block if same else type(block)(bindings))
            changed = changed or not same
        return relax.SeqExpr(blocks, seq.body) if changed else seq

    def _checked(self, binding: Any, dataflow: bool) -> list[Any]:
        """Return a binding after the checks that it needs."""
        value = binding.value
        if isinstance(value, relax.If):
            branches = [self.sequence(b) for b in (value.true_branch, value.false_branch)]
            if _same(branches, (value.true_branch, value.false_branch)):
                return [binding]
            return [relax.VarBinding(binding.var, relax.If(value.cond, *branches))]
        checks: list[Any] = []
        for read in reads(value):
            start = origin(read, value, self._values)
            if not self._is_inside(start):
                index = read.of(value)
                if min(index.ty.ndim, start.tensor.ty.ndim) < 0:
                    continue
                checked = _of_named_sizes(start.tensor, dataflow, checks)
                index = checked if index.same_as(start.tensor) else _of_named_sizes(
                    index, dataflow, checks)  # fmt: skip
                inside = (relax.DataflowVar if dataflow else relax.Var)("inside", index.ty)
                call = self._call(replace(start, tensor=checked), index, _reader(binding))
                checks.append(relax.VarBinding(inside, call))
                value = self._builder.normalize(_with_operand(value, read, inside))
        return [*checks, relax.VarBinding(binding.var, value)] if checks else [binding]

    def _hoisted(self, binding: Any, found: Sequence[tuple[Origin, str]], dataflow: bool) -> Any:
        """Return the binding of another variable, and the tensor bound to its checked copy."""
        starts = [start for start, _ in found]
        low = reduce(tirx.max, (start.low for start in starts))
        high = reduce(tirx.min, (start.high for start in starts))
        raw = (relax.DataflowVar if dataflow else relax.Var)("raw", binding.var.ty)
        readers = " or ".join(dict.fromkeys(reader for _, reader in found))
        call = self._call(Origin(raw, low, high, None), raw, readers)
        return [relax.VarBinding(raw, binding.value), relax.VarBinding(binding.var, call)]

    def _is_inside(self, start: Origin) -> bool:
        at_call = any(
            start.tensor.same_as(known.tensor) and start.component == known.component
            and self._bounds.contains(known.low, known.high, start.low, start.high)
            for known in self._inside
        )  # fmt: skip
        if at_call or start.component is not None:
            return at_call
        return self._bounds.inside(start.tensor, start.low, start.high)

    def _call(self, start: Origin, index: Any, reader: str) -> Any:
        """Return a call that copies an index, and fails if an element it stems from is outside."""
        message = f"{reader} at an element that is outside of its axis"
        tensors = [index] if start.tensor.same_as(index) else [index, start.tensor]

        def compute(operands: Any, ends: Any) -> Any:
            within = replace(start, low=ends[0], high=ends[1])
            return te.extern(
                [operands[0].shape], list(operands),
                lambda ins, outs: _body(ins[0], ins[-1], outs[0], within, message),
                dtype=str(operands[0].dtype), name="checked_index")  # fmt: skip

        call = self._builder.call_te(compute, tensors, [start.low, start.high],
                                     primfunc_name_hint="checked_index")  # fmt: skip
        return self._builder.normalize(call)


def _reader(binding: Any) -> str:
    """What a check says that reads elements: the operator, and its node if the model names it."""
    name = str(binding.value.op.name).removeprefix("relax.")
    node = "".join(c if c.isprintable() else "?" for c in node_of(binding))
    return f"{node}: {name}" if node else name


def _body(index: Any, source: Any, out: Any, start: Origin, message: str) -> Any:
    """Return loops that assert that the elements of `source` are inside, and copy `index`.

    TVM counts the stores and calls of a loop's body to decide whether to unroll it, and unrolls
    any number of rounds of a body that only asserts, unless told not to.
    """
    from tvm.script.ir_builder import IRBuilder
    from tvm.script.ir_builder import tirx as T

    also = tirx.IntImm("int64", start.also or 0)

    def low_high(element: Any) -> Any:
        element = tirx.Cast("int64", element)
        inside = tirx.all(element >= start.low, element <= start.high)
        return inside if start.also is None else tirx.any(inside, tirx.EQ(element, also))

    with IRBuilder() as builder, T.seq_scope():
        with ExitStack() as loops:
            loops.enter_context(T.attr(tirx.IntImm("int32", 0), "pragma_auto_unroll_max_step", -1))
            at = [loops.enter_context(T.serial(0, size)) for size in source.shape]
            if start.component is not None:
                at[-1] = tirx.IntImm("int64", start.component)
            loops.enter_context(T.Assert(low_high(source[tuple(at)]), message, "ValueError"))
            T.evaluate(0)
        with ExitStack() as loops:
            at = [loops.enter_context(T.serial(0, size)) for size in index.shape]
            T.buffer_store(out, index[tuple(at)], at)
    return builder.get()


def called_functions(mod: tvm.IRModule) -> set[Any]:
    """Return the functions that functions of the module call."""
    found: set[Any] = set()

    def visit(expr: Any) -> None:
        if isinstance(expr, tvm.ir.GlobalVar):
            found.add(expr)

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, visit)
    return found


def _of_named_sizes(tensor: Any, dataflow: bool, bindings: list[Any]) -> Any:
    """Return a tensor whose sizes have names, as those of nonzero lack; add the binding."""
    if isinstance(tensor.ty.shape, relax.ShapeExpr):
        return tensor
    sizes = [tirx.Var(f"size{k}", "int64") for k in range(tensor.ty.ndim)]
    ty = relax.TensorType(sizes, tensor.ty.dtype)
    named = (relax.DataflowVar if dataflow else relax.Var)("named", ty)
    bindings.append(relax.MatchCast(named, tensor, ty))
    return named


def _with_operand(call: Any, read: IndexRead, inside: Any) -> Any:
    """Return a call that reads at another index."""
    args = list(call.args)
    if read.field is None:
        args[read.operand] = inside
    else:
        fields = list(args[read.operand].fields)
        fields[read.field] = inside
        args[read.operand] = relax.Tuple(fields)
    return relax.Call(call.op, args, call.attrs, call.ty_args, call.span)


def _collect(seq: Any, values: dict[Any, Any]) -> None:
    """Add the values of all variables, also of branches."""
    for binding in (b for block in seq.blocks for b in block.bindings):
        values[binding.var] = binding.value
        if isinstance(binding.value, relax.If):
            _collect(binding.value.true_branch, values)
            _collect(binding.value.false_branch, values)


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x.same_as(y) for x, y in zip(a, b, strict=True))
