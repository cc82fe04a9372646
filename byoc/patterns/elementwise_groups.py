"""Elementwise operators that together compute one function of one value, which only they read.

Before: a = add(v, 3); b = clip(a, 0, 6); c = divide(b, 6); w = multiply(v, c)
After:  w = hard_swish(v)

Casts to float32 and back count as nothing: the function is that of real numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

from ...analysis.answer.recovered import Recovered
from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import Certificate, OpInfo
from ...layout.graph.relax_graph import Op, Value
from . import unary_functions as unary
from .extents.symbolic_shapes import same_shape
from .unary_functions import ARGUMENT, FloatPolynomial

Infos = Mapping[Op, Recovered]

#: No known function is written in more operators, casts aside.
LONGEST = 10


@dataclass(frozen=True)
class ElementwiseGroup:
    """Several operators merged into one; the last of ``ops`` produces its result."""

    ops: tuple[Op, ...]
    argument: Value
    info: OpInfo

    @property
    def op(self) -> Op:
        """The merged operator as an op of a graph."""
        last = self.ops[-1]
        return Op(last.name, last.func, last.call, (self.argument,), last.outputs, last.origin,
                  era=last.era)  # fmt: skip


def group(value: Value, infos: Infos) -> ElementwiseGroup | None:
    """The function that several readers of a value compute together; None if it is unknown."""
    program = value.of or value
    if program.pinned is not None or len(program.uses) < 2:
        return None
    polys: dict[Value, FloatPolynomial] = {value: ARGUMENT}
    ops: list[Op] = []
    while sum(not _is_cast(op, infos) for op in ops) < LONGEST:
        following = _next(value, ops, polys, infos)
        if following is None:
            return None
        op, result = following
        ops.append(op)
        polys[op.outputs[0]] = result
        inside = set(map(_origin, ops))
        whole = value.only_in(inside) and op.outputs[0].dtype == value.dtype
        function = unary.named(result) if whole else None
        if function is not None and all(o.outputs[0].only_in(inside) for o in ops[:-1]):
            return ElementwiseGroup(tuple(ops), value, _info(*function, infos[op].info))
    return None


def _is_cast(op: Op, infos: Infos) -> bool:
    info = infos[op].info
    return isinstance(info, OpInfo) and info.name == "relax.astype"


def _next(
    value: Value, ops: Sequence[Op], polys: dict[Value, FloatPolynomial], infos: Infos
) -> tuple[Op, FloatPolynomial] | None:
    """An op that reads known values only, and its result."""
    inside = set(map(_origin, ops))
    for read in polys:
        for op in read.uses:
            if _origin(op) in inside or len(op.outputs) != 1:
                continue
            (out,) = op.outputs
            if out.dtype not in _wider(value.dtype) or not same_shape(out.shape, value.shape):
                continue
            result = _result(op, polys, infos)
            if result is not None:
                return op, result
    return None


def _wider(dtype: str) -> tuple[str, ...]:
    """The dtypes that hold each number of a dtype: exporters compute half precision in float32."""
    return (dtype, "float32") if dtype in ("float16", "bfloat16") else (dtype,)


def _result(op: Op, polys: dict[Value, FloatPolynomial], infos: Infos) -> FloatPolynomial | None:
    info = infos[op].info
    if not isinstance(info, OpInfo) or info.relaid:
        return None
    if info.name == "relax.astype":
        return _operand(info.operands[0], op, polys)
    literals = {k: _literal(info.attrs[k]) for k in ("x1", "x2") if k in info.attrs}
    operands = [
        literals.get("x1"),
        *(_operand(o, op, polys) for o in info.operands),
        literals.get("x2"),
    ]
    known_operands = [p for p in operands if p is not None]
    if len(known_operands) != len(info.operands) + len(literals):
        return None
    return unary.applied(info.name, info.attrs, known_operands)


def _operand(
    operand: int | Constant, op: Op, polys: dict[Value, FloatPolynomial]
) -> FloatPolynomial | None:
    if isinstance(operand, Constant):
        return _literal(operand.value)
    value = op.values[operand]
    if value is not None and value.constant and all(e == 1 for e in value.shape):
        return _literal(value.expr.value.numpy().reshape(()).item())
    return None if value is None else polys.get(value)


def _literal(value: object) -> FloatPolynomial | None:
    number = float(value) if isinstance(value, (int, float)) else nan
    return unary.number(number) if isfinite(number) else None


def _origin(op: Op) -> Op:
    return op.origin or op


def _info(name: str, attrs: dict[str, float], last: object) -> OpInfo:
    assert isinstance(last, OpInfo)
    certificate = Certificate("real", False, ("real arithmetic",))
    return OpInfo(name, attrs, (0,), "kElemWise", ("", ""), certificate)
