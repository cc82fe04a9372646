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
from ...prepare.loops.bfloat16_words import BITS, HALF, WIDE, number_of, rounded, word_of
from ...prepare.loops.round_bfloat16 import Rule, rounding_rules
from .program import Unscheduled

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max)
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

    def call(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        values = items(node.args)
        is_function = {_type(e) for e in (node, *values)} == {HALF} and not is_guard(node)
        if not (is_function and isinstance(node.op, tvm.ir.Op)):
            return node
        value = tirx.call_intrin(WIDE, node.op, *(tirx.Cast(WIDE, e) for e in values))
        return tirx.Cast(HALF, value)

    rules = rounding_rules(items(func.params), rounded, lambda value: tirx.Cast(HALF, value))
    body = tvm_ffi.structural_mutate(func.body, [*rules, (tvm.ir.Call, call)])
    return func.with_body(body)


def in_float32(stmt: Any) -> Any:
    """Return a loop nest of scalars that computes in float32, in memory of its own, too.

    Raises:
        Unscheduled: An expression of bfloat16 has a form that is not known.
    """
    return tvm_ffi.structural_mutate(stmt, [*_Variables().rules(), *_RULES])


class _Variables:
    """Variables and memory of a loop nest in other dtypes: float32, views in words."""

    def __init__(self) -> None:
        self._new: NodeDict[Any] = NodeDict()

    def rules(self) -> list[Rule]:
        """Return the rules for all nodes that name a variable or a buffer."""
        return [(tirx.AllocBuffer, self._allocate), (tirx.DeclBuffer, self._declare),
                (TensorLoad, self._load), (tirx.BufferStore, self._store), (tirx.Bind, self._bind),
                (tirx.Let, self._let), (tvm.ir.Var, lambda var, _: self._of(var))]  # fmt: skip

    def _of(self, var: Any) -> Any:
        new = self._new.get(var)
        return var if new is None else new

    def _renamed(self, var: Any) -> Any:
        if _type(var) == HALF:
            self._new[var] = tirx.Var(var.name, WIDE)
        return self._of(var)

    def _allocate(self, node: Any, mutator: Any) -> Any:
        buffer = node.buffer
        if dtype_of(buffer) != HALF:
            return node
        shape = items(buffer.ty.shape)
        new = tirx.decl_buffer(shape, WIDE, name=buffer.name, scope=buffer.scope())
        self._new[buffer] = new
        return tirx.AllocBuffer(new, node.annotations)

    def _declare(self, node: Any, mutator: Any) -> Any:
        """TVM's passes take no views of bfloat16; they are of words."""
        buffer = node.buffer
        if dtype_of(buffer) != HALF:
            return node
        self._new[buffer] = tirx.decl_buffer(items(buffer.ty.shape), BITS, name=buffer.name)
        return tirx.DeclBuffer(self._new[buffer], data=node.data)

    def _load(self, node: Any, mutator: Any) -> Any:
        if (new := self._new.get(node.source)) is not None:
            places = [mutator.mutate(i) for i in node.indices]
            value = tirx.BufferLoad(new, places)
            return number_of(value) if dtype_of(new) == BITS else value
        node = mutator.default_mutate(node)
        if _type(node) != HALF:
            return node
        return number_of(tirx.reinterpret(BITS, node))

    def _store(self, node: Any, mutator: Any) -> Any:
        value, buffer = mutator.mutate(node.value), self._of(node.buffer)
        places = [mutator.mutate(i) for i in node.indices]
        if not buffer.same_as(node.buffer) and dtype_of(buffer) == BITS:
            value = word_of(value)
        elif dtype_of(buffer) == HALF:  # TVM's cast makes an infinity or a zero of some NaN
            value = tirx.reinterpret(HALF, word_of(value))
        return tirx.BufferStore(buffer, value, places)

    def _bind(self, node: Any, mutator: Any) -> Any:
        value = mutator.mutate(node.value)
        return tirx.Bind(self._renamed(node.var), value)

    def _let(self, node: Any, mutator: Any) -> Any:
        value = mutator.mutate(node.value)
        return tirx.Let(self._renamed(node.var), value, mutator.mutate(node.body))


def _cast(node: Any, mutator: Any) -> Any:
    value, dtype = mutator.mutate(node.value), dtype_of(node)
    target = WIDE if dtype == HALF else dtype
    return value if _type(value) == target else tirx.Cast(target, value)


def _binary(node: Any, mutator: Any) -> Any:
    if HALF not in (_type(node.a), _type(node.b)):
        return mutator.default_mutate(node)
    return type(node)(mutator.mutate(node.a), mutator.mutate(node.b))


def _select(node: Any, mutator: Any) -> Any:
    if _type(node) != HALF:
        return mutator.default_mutate(node)
    parts = (node.condition, node.true_value, node.false_value)
    return tirx.Select(*map(mutator.mutate, parts))


def _call(node: Any, mutator: Any) -> Any:
    if HALF not in (_type(node), *map(_type, items(node.args))):
        return mutator.default_mutate(node)
    if not is_guard(node):
        raise Unscheduled(f"a call of bfloat16 is not known: {node.op}")
    return tirx.if_then_else(*map(mutator.mutate, items(node.args)))


def _number(node: Any, mutator: Any) -> Any:
    return tirx.FloatImm(WIDE, node.value) if _type(node) == HALF else node


_RULES: list[Rule] = [
    (tirx.Cast, _cast), ((*_ARITHMETIC, *_COMPARED), _binary), (tirx.Select, _select),
    (tvm.ir.Call, _call), (tirx.FloatImm, _number),
]  # fmt: skip


def _type(node: Any) -> str:
    """The dtype of a node; empty if it is not a number."""
    if isinstance(node, tvm.ir.Op):
        return ""
    return str(getattr(getattr(node, "ty", None), "dtype", ""))
