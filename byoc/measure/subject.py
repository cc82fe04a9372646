"""Some ops of a graph as a module of their own, over static shapes.

Before: … lv = R.call_tir(cls.conv2d, (x, w), …); lv1 = R.call_tir(cls.relu, (lv,), …) …
After:  def main_0(p0, p1):
            v0 = R.call_tir(cls.f0_0, (p0, p1), …)
            return R.call_tir(cls.f0_1, (v0,), …)

Constants become parameters. Names do not depend on the program, so equal subjects have equal
structural hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax, tirx

from ...layout.graph.relax_graph import Op, Value
from ..backend.region import results_of
from .timing_key import hash_of_module

Extents = Mapping[str, int]
#: The value of a symbolic extent without a declared one.
LIKELY = 16


class NotMeasurable(Exception):
    """The ops cannot be measured separately; the message says why."""


@dataclass(frozen=True)
class Buffer:
    """The static shape and type of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def type(self) -> Any:
        return relax.TensorType(self.shape, self.dtype)


@dataclass(frozen=True, eq=False)
class Subject:
    """Ops alone, with symbolic extents bound: they compute ``results`` from ``values``."""

    ops: tuple[Op, ...]
    extents: Extents
    values: tuple[Value, ...]
    buffers: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    hash: str


def subject(ops: Sequence[Op], extents: Extents) -> Subject:
    """The subject of some ops, in the order of the program.

    Raises `NotMeasurable` if an op reads a value that is not a tensor of the graph.
    """
    produced = {v for op in ops for v in op.outputs}
    read = (v for op in ops for v in op.inputs if v is not None and v not in produced)
    values = tuple(dict.fromkeys(read))
    inputs, outputs = (tuple(_buffer(v, extents) for v in vs) for vs in (values, results_of(ops)))
    draft = Subject(tuple(ops), extents, values, inputs, outputs, "")
    return replace(draft, hash=hash_of_module(joined([draft])))


def joined(subjects: Sequence[Subject]) -> Any:
    """One module: ``main_0`` computes the first subject, ``main_1`` the second, …"""
    builder = relax.BlockBuilder()
    for k, item in enumerate(subjects):
        _Function(builder, item, k).emit()
    return builder.get()


class _Function:
    """Emits the ops of a subject as a function over parameters p0, p1, ..."""

    def __init__(self, builder: Any, item: Subject, number: int) -> None:
        self.builder, self.subject, self.number = builder, item, number
        self.params = [relax.Var(f"p{k}", b.type) for k, b in enumerate(item.buffers)]
        self.vars: dict[Value, Any] = dict(zip(item.values, self.params, strict=True))

    def emit(self) -> None:
        ops = self.subject.ops
        with self.builder.function(f"main_{self.number}", self.params):
            with self.builder.dataflow():
                for k, op in enumerate(ops):
                    self.call(k, op)
                results = [self.vars[v] for v in results_of(ops)]
                out = self.builder.emit_output(
                    results[0] if len(results) == 1 else relax.Tuple(results)
                )
            self.builder.emit_func_output(out)

    def call(self, k: int, op: Op) -> None:
        func = op.func.without_attr("global_symbol") if op.func.attrs else op.func
        gvar = self.builder.add_func(func, f"f{self.number}_{k}")
        pairs = zip(op.inputs, op.call.args[1].fields, strict=True)
        arguments = relax.Tuple([self.argument(v, e) for v, e in pairs])
        types = [_buffer(v, self.subject.extents).type for v in op.outputs]
        output = self.builder.emit(relax.call_tir(gvar, arguments, types), f"v{k}")
        many = len(types) > 1
        for j, value in enumerate(op.outputs):
            self.vars[value] = self.builder.emit(relax.TupleGetItem(output, j)) if many else output

    def argument(self, value: Value | None, expr: Any) -> Any:
        if value is not None:
            return self.vars[value]
        if isinstance(expr, relax.Var) or not isinstance(expr, tirx.PrimExpr):
            raise NotMeasurable("it reads a value that is not a tensor of known shape")
        return _number(expr, self.subject.extents)


def _buffer(value: Value, extents: Extents) -> Buffer:
    return Buffer(tuple(int(_number(e, extents)) for e in value.shape), value.dtype)


def _number(expr: Any, extents: Extents) -> Any:
    """An extent or a scalar argument with the symbolic extents bound."""
    if isinstance(expr, int):
        return expr
    analyzer = tvm.sym.Analyzer()
    for var in tirx.analysis.undefined_vars(expr):
        analyzer.bind(var, tirx.IntImm(str(var.ty.dtype), extents.get(var.name, LIKELY)))
    value = analyzer.simplify(expr)
    if not isinstance(value, tirx.IntImm):
        raise NotMeasurable(f"{expr} is not a number although its variables are bound")
    return value
