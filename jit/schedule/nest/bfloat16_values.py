"""Compute in float32 what a loop nest computes in bfloat16, with explicit conversions.

    Before: t = Cast("float32", x[i]);  y[i] = Cast("bfloat16", max(t, 0))
    After:  t = reinterpret("float32", uint32(reinterpret("uint16", x[i])) << 16);  y[i] = …

TVM's pass `BF16ComputeLegalize` rejects variables of bfloat16. In variables of float32 it leaves
casts of what is read as bfloat16, which becomes words later: ``t`` was the number of these bits.
It also drops casts to bfloat16 whose result stays in the kernel; those of the program round here.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import dtype_of, is_guard
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.support.tvm_compat import TensorLoad
from ....byoc.prepare.paged.vector_terms import BITS, HALF, WIDE, narrowed, wide
from ....byoc.prepare.paged.vector_terms import store as narrow_store
from .program import Unscheduled

_TWO = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)
_COMPARED = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def has_bfloat16(func: Any) -> bool:
    """Return whether a PrimFunc has parameters of bfloat16, or casts to it."""
    found = [_type(param) for param in items(func.params)]
    tvm_ffi.structural_walk(func.body, (tirx.Cast, lambda node: found.append(_type(node))))
    return HALF in found


def with_rounded_casts(func: Any) -> Any:
    """Return a PrimFunc whose casts to bfloat16 round, and whose functions are of float32.

    Functions of float32 have vector forms. Casts whose result is stored in a parameter round there.
    """
    params = items(func.params)

    def cast(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if dtype_of(node) != HALF:
            return node
        return tirx.Cast(HALF, narrowed(tirx.Cast(WIDE, node.value), HALF))

    def store(node: Any, mutator: Any) -> Any:
        is_result = any(node.buffer.same_as(param) for param in params)
        if not (is_result and isinstance(node.value, tirx.Cast)):
            return mutator.default_mutate(node)
        value = tirx.Cast(dtype_of(node.value), mutator.mutate(node.value.value))
        return tirx.BufferStore(node.buffer, value, list(node.indices))

    def call(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        values = items(node.args)
        is_function = {_type(e) for e in (node, *values)} == {HALF} and not is_guard(node)
        if not (is_function and isinstance(node.op, tvm.ir.Op)):
            return node
        wide = tirx.call_intrin(WIDE, node.op, *(tirx.Cast(WIDE, e) for e in values))
        return tirx.Cast(HALF, wide)

    rules = [(tirx.Cast, cast), (tirx.BufferStore, store), (tvm.ir.Call, call)]
    return func.with_body(tvm_ffi.structural_mutate(func.body, rules))


def in_float32(stmt: Any) -> Any:
    """Return a loop nest of scalars that computes in float32, in memory of its own, too.

    Raises:
        Unscheduled: An expression of bfloat16 has a form that is not known.
    """
    variables: NodeDict[Any] = NodeDict()

    def allocate(node: Any, mutator: Any) -> Any:
        buffer = node.buffer
        if str(buffer.ty.dtype) != HALF:
            return node
        shape = items(buffer.ty.shape)
        variables[buffer] = tirx.decl_buffer(shape, WIDE, name=buffer.name, scope=buffer.scope())
        return tirx.AllocBuffer(variables[buffer], node.annotations)

    def declare(node: Any, mutator: Any) -> Any:
        """TVM's passes take no views of bfloat16; they are of words."""
        buffer = node.buffer
        if str(buffer.ty.dtype) != HALF:
            return node
        variables[buffer] = tirx.decl_buffer(items(buffer.ty.shape), BITS, name=buffer.name)
        return tirx.DeclBuffer(variables[buffer], data=node.data)

    def load(node: Any, mutator: Any) -> Any:
        if (new := variables.get(node.source)) is not None:
            places = [mutator.mutate(i) for i in node.indices]
            is_view = str(new.ty.dtype) == BITS
            return wide(new, *places) if is_view else tirx.BufferLoad(new, places)
        node = mutator.default_mutate(node)
        if _type(node) != HALF:
            return node
        word = tirx.Cast("uint32", tirx.reinterpret("uint16", node))
        return tirx.reinterpret(WIDE, tirx.shift_left(word, tirx.const(16, "uint32")))

    def cast(node: Any, mutator: Any) -> Any:
        value, dtype = mutator.mutate(node.value), dtype_of(node)
        target = WIDE if dtype == HALF else dtype
        return value if _type(value) == target else tirx.Cast(target, value)

    def two(node: Any, mutator: Any) -> Any:
        if HALF not in (_type(node.a), _type(node.b)):
            return mutator.default_mutate(node)
        return type(node)(mutator.mutate(node.a), mutator.mutate(node.b))

    def select(node: Any, mutator: Any) -> Any:
        if _type(node) != HALF:
            return mutator.default_mutate(node)
        parts = (node.condition, node.true_value, node.false_value)
        return tirx.Select(*map(mutator.mutate, parts))

    def call(node: Any, mutator: Any) -> Any:
        if HALF not in (_type(node), *map(_type, items(node.args))):
            return mutator.default_mutate(node)
        if not is_guard(node):
            raise Unscheduled(f"a call of bfloat16 is not known: {node.op}")
        return tirx.if_then_else(*map(mutator.mutate, items(node.args)))

    def variable(var: Any, mutator: Any) -> Any:
        new = variables.get(var)
        return var if new is None else new

    def renamed(var: Any) -> Any:
        if _type(var) == HALF:
            variables[var] = tirx.Var(var.name, WIDE)
        return variable(var, None)

    def bind(node: Any, mutator: Any) -> Any:
        value = mutator.mutate(node.value)
        return tirx.Bind(renamed(node.var), value)

    def let(node: Any, mutator: Any) -> Any:
        value = mutator.mutate(node.value)
        return tirx.Let(renamed(node.var), value, mutator.mutate(node.body))

    def number(node: Any, mutator: Any) -> Any:
        return tirx.FloatImm(WIDE, node.value) if _type(node) == HALF else node

    def store(node: Any, mutator: Any) -> Any:
        value, buffer = mutator.mutate(node.value), variable(node.buffer, None)
        if not buffer.same_as(node.buffer) and str(buffer.ty.dtype) == BITS:
            return narrow_store(buffer, value, *(mutator.mutate(i) for i in node.indices))
        if str(buffer.ty.dtype) == HALF:
            value = tirx.Cast(HALF, value)
        return tirx.BufferStore(buffer, value, [mutator.mutate(i) for i in node.indices])

    rules = [(tirx.AllocBuffer, allocate), (tirx.DeclBuffer, declare),
             (TensorLoad, load), (tirx.Cast, cast),
             ((*_TWO, *_COMPARED), two), (tirx.Select, select), (tvm.ir.Call, call),
             (tirx.Bind, bind), (tirx.Let, let), (tirx.FloatImm, number),
             (tirx.BufferStore, store), (tvm.ir.Var, variable)]  # fmt: skip
    return tvm_ffi.structural_mutate(stmt, rules)


def _type(node: Any) -> str:
    """The dtype of a node; empty if it is not a number."""
    if isinstance(node, tvm.ir.Op):
        return ""
    return str(getattr(getattr(node, "ty", None), "dtype", ""))
