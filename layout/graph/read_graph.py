"""Read a Relax function as a graph of values and the PrimFunc calls between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.origin import node_of
from ...analysis.support.tvm_compat import GenericConst
from .relax_graph import Graph, Op, Value, extents
from .side_effects import Effect, SideEffects


def graph(mod: Any, func: Any) -> Graph:
    """Read a Relax function; anything but a ``call_tir`` pins the values that it uses."""
    reader = GraphReader(mod)
    reader.function(func)
    values, ops = tuple(reader.values), tuple(reader.ops)
    return Graph(values, ops, reader.by_var, reader.of, reader.tuples, reader.effect)


class GraphReader:
    """Collects the values and ops of a function, in order."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        self.values: list[Value] = []
        self.ops: list[Op] = []
        self.by_var = NodeDict[Op]()
        self.of = NodeDict[Value]()
        self.tuples = NodeDict[tuple[Value, ...]]()
        self.effect, self.effects = Effect.NONE, SideEffects(mod)
        self.era = 0

    def function(self, func: Any) -> None:
        count = (func.attrs or {}).get("num_input")
        for k, param in enumerate(func.params):
            value = self.new(param, param.name, param.ty)
            if value is not None:
                value.fixed = value.parameter = True
                value.weight = count is not None and k >= int(count)
        self.sequence(func.body, "the function's result")
        for value in self.values if self.effect == Effect.IMPURE else ():
            value.weight = False  # a call may write into it

    def new(self, var: Any, name: str, ty: Any, producer: Op | None = None) -> Value | None:
        shape = extents(getattr(ty, "shape", None))
        if shape is None or not hasattr(ty, "dtype"):
            return None
        value = Value(name, shape, str(ty.dtype), var, producer=producer, vdevice=ty.vdevice)
        self.values.append(value)
        if var is not None:
            self.of[var] = value
        return value

    def sequence(self, body: Any, why: str) -> None:
        for block in body.blocks:
            for binding in block.bindings:
                self.binding(binding)
        self.pin(body.body, why)

    def binding(self, binding: Any) -> None:
        value = getattr(binding, "value", None)
        if isinstance(value, relax.If):
            self.pin(value.cond, "a branch's condition")
            for branch in (value.true_branch, value.false_branch):
                self.sequence(branch, "a branch's result")
            self.opaque(binding.var)
        elif isinstance(value, relax.Var) and value in self.of and not _casts(binding):
            self.of[binding.var] = self.of[value]
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in self.tuples:
            self.of[binding.var] = self.tuples[value.tuple_value][value.index]
        elif isinstance(value, relax.Tuple) and all(_has_value(f, self.of) for f in value.fields):
            self.tuples[binding.var] = tuple(self.of[f] for f in value.fields)
        elif not self.call_tir(binding, value):
            effect = self.effects.of(value)
            self.effect, self.era = max(self.effect, effect), self.era + (effect > Effect.NONE)
            for expr in (value, getattr(binding, "ty", None)):
                self.pin(expr, f"used by {_name(value)}")
            self.opaque(binding.var)

    def opaque(self, var: Any) -> None:
        value = self.new(var, var.name, var.ty)
        if value is not None:
            value.fixed = True

    def call_tir(self, binding: Any, call: Any) -> bool:
        if not is_call_tir(call):
            return False
        gvar, arguments = call.args[0], call.args[1]
        func = self.mod.functions.get(gvar)
        if not isinstance(func, tirx.PrimFunc) or not hasattr(arguments, "fields"):
            return False
        inputs = tuple(map(self.argument, items(arguments.fields)))
        types = items(call.ty.fields) if hasattr(call.ty, "fields") else [call.ty]
        if any(extents(getattr(t, "shape", None)) is None for t in types):
            return False
        if not _fits(func, inputs, len(types)):
            return False
        op = Op(gvar.name_hint, func, call, inputs, (), node=node_of(binding), era=self.era)
        self.add(binding, op, types)
        for result in op.outputs:
            result.weight = all(x is not None and (x.constant or x.weight) for x in inputs)
        return True

    def add(self, binding: Any, op: Op, types: Sequence[Any]) -> None:
        """Add an op with its results, as a user of the values that it reads."""
        many = hasattr(op.call.ty, "fields")
        names = [f"{binding.var.name}.{k}" if many else binding.var.name for k in range(len(types))]
        results = [self.new(None if many else binding.var, n, t, op)
                   for n, t in zip(names, types, strict=True)]  # fmt: skip
        op.outputs = tuple(v for v in results if v is not None)
        if many:
            self.tuples[binding.var] = op.outputs
        for value in op.inputs:
            if value is not None and op not in value.uses:
                value.uses.append(op)
        self.ops.append(op)
        self.by_var[binding.var] = op

    def argument(self, expr: Any) -> Value | None:
        if isinstance(expr, GenericConst):
            value = self.new(None, "const", expr.ty)
            if value is not None:
                value.constant, value.expr = True, expr
            return value
        if isinstance(expr, relax.Var):
            return self.of.get(expr)
        self.pin(expr, "used by an expression")
        return None

    def pin(self, expr: Any, why: str) -> None:
        """Pin all values that an expression mentions."""
        for var in _variables(expr):
            for value in self.tuples.get(var) or ((self.of[var],) if var in self.of else ()):
                value.pinned = value.pinned or why


def _casts(binding: Any) -> bool:
    """Whether a binding casts a value; it may define extents that others use."""
    return isinstance(binding, relax.MatchCast)


def _fits(func: Any, inputs: Sequence[Value | None], results: int) -> bool:
    """Whether a PrimFunc has a buffer for each tensor of a call: inputs first, then results."""
    params = items(func.params)[: len(inputs) + results]
    tensors = [value is not None for value in inputs] + [True] * results
    return len(params) == len(tensors) and all(
        is_buffer_var(p) for p, tensor in zip(params, tensors, strict=True) if tensor
    )


def _variables(expr: Any) -> Iterator[Any]:
    variables: list[Any] = []
    if expr is not None:
        tvm_ffi.structural_walk(expr, (relax.Var, variables.append))
    return iter(variables)


def _has_value(expr: Any, of: NodeDict[Value]) -> bool:
    return isinstance(expr, relax.Var) and expr in of


def _name(value: Any) -> str:
    if isinstance(value, relax.Var):  # a value with a variable is a tuple
        return f"the tuple {value.name}"
    op = getattr(value, "op", None)
    return str(getattr(op, "name", getattr(op, "name_hint", type(value).__name__)))
