"""TIR expressions as terms.

The reader knows the value of every scalar variable in scope and calls its ``read`` callback for
elements of buffers. For an expression that it does not understand it raises `Unliftable`; it never
guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
from tvm.tirx.buffer import is_buffer_var

from ...support.tvm_compat import TENSOR_LOAD, is_predicated, source_of
from ...terms.condition_terms import conj, disj, ite, negate, parts
from ...terms.integer import floordiv, floormod
from ...terms.scalar import call, extreme
from ...terms.term import (
    FALSE,
    INT_DTYPES,
    TRUE,
    Int,
    Term,
    Var,
    as_int,
    const,
    fresh,
    integer,
    mul,
)
from .expression_checks import check_arity, check_index, check_lanes
from .node import Dtypes, items, lanes_of, script
from .operations import arithmetic, bitwise, cast, compare, truncdiv, width
from .unliftable import Unliftable

Read = Callable[[Any, tuple[Int, ...]], Term]


class Env(Protocol):
    """Values of scalar variables."""

    def get(self, var: Any, /) -> Term | None:
        """Return the value of a variable, or None if it is not bound."""


_ARITH = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
_COMPARE = {"LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "EQ": "eq", "NE": "ne"}
_BITS = {
    "BitwiseAnd": "bitand",
    "BitwiseOr": "bitor",
    "BitwiseXor": "bitxor",
    "LShift": "shl",
    "RShift": "shr",
}
_RENAMED = {"fabs": "abs", "bitwise_not": "bitnot"}
_BIT_CALLS = {
    "bitwise_and": "bitand",
    "bitwise_or": "bitor",
    "bitwise_xor": "bitxor",
    "shift_left": "shl",
    "shift_right": "shr",
}


class ExpressionReader:
    """Converts expressions under an environment of scalar variables."""

    def __init__(self, env: Env, read: Read) -> None:
        self.env, self.read = env, read
        self._dtype_of = Dtypes()
        self.conditions: tuple[Term, ...] = ()  # of the enclosing selections
        self.vectors = False  # whether vectors are allowed: only in a store
        self.lane: Var | None = None  # the lane of the vector that is read, if there is one

    def dtype_of(self, expr: Any) -> str:
        """Return the data type of a number, as text."""
        dtype = self._dtype_of(expr)
        if not dtype:
            raise Unliftable("an expression is not numeric", script(expr)[:80])
        return dtype

    def index(self, expr: Any) -> Int:
        """Return an integer; the type of a literal does not matter."""
        if type(expr) is tvm.tirx.IntImm:
            return integer(expr.value)
        return as_int(self(expr))

    def __call__(self, expr: Any) -> Term:
        kind = type(expr).__name__
        if kind in _ARITH:
            a, b = self(expr.a), self(expr.b)
            integers = isinstance(a, Int) and isinstance(b, Int)
            return arithmetic(_ARITH[kind], a, b, "int" if integers else self.dtype_of(expr))
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, expr)
        if kind in _COMPARE:
            return compare(_COMPARE[kind], self(expr.a), self(expr.b))
        if kind in _BITS:
            return _bits(self, _BITS[kind], expr, expr.a, expr.b)
        raise Unliftable(f"unsupported expression {kind}", script(expr)[:80])


def _int_imm(reader: ExpressionReader, expr: Any) -> Term:
    dtype = reader.dtype_of(expr)
    if dtype in INT_DTYPES:
        return integer(int(expr.value))
    if dtype == "bool":
        return TRUE if int(expr.value) else FALSE
    return const(int(expr.value), dtype)


def _float_imm(reader: ExpressionReader, expr: Any) -> Term:
    return const(float(expr.value), reader.dtype_of(expr))


def _var(reader: ExpressionReader, expr: Any) -> Term:
    value = reader.env.get(expr)
    if value is None:
        if is_buffer_var(expr):
            raise Unliftable("a buffer is used as a pointer", script(expr)[:80])
        raise Unliftable("a variable is not bound", script(expr)[:80])
    return value


def _load(reader: ExpressionReader, expr: Any) -> Term:
    if is_predicated(expr):
        raise Unliftable("a predicated load is not supported", script(expr)[:80])
    indices = items(expr.indices)
    index = tuple(reader.index(i) for i in indices)
    if reader.lane is not None:
        check_index(indices)
    return reader.read(source_of(expr), index)


def _lane(reader: ExpressionReader, expr: Any, inside: Sequence[Any]) -> Int:
    """The lane that is read; one variable for the whole store."""
    count = lanes_of(str(expr.ty.dtype))
    if not reader.vectors or count < 1 or any(lanes_of(str(x.ty.dtype)) != 1 for x in inside):
        raise Unliftable("a vector is not supported here", script(expr)[:80])
    if reader.lane is None:
        reader.lane = fresh(integer(count), "lane")
    if reader.lane.extent is not integer(count):
        raise Unliftable("vectors of different lengths in one store", script(expr)[:80])
    return as_int(reader.lane)


def _ramp(reader: ExpressionReader, expr: Any) -> Term:
    lane = _lane(reader, expr, (expr.base, expr.stride))
    return reader.index(expr.base) + mul(lane, reader.index(expr.stride))


def _broadcast(reader: ExpressionReader, expr: Any) -> Term:
    _lane(reader, expr, (expr.value,))
    return reader(expr.value)


def _floordiv(reader: ExpressionReader, expr: Any) -> Term:
    a, b = reader(expr.a), reader(expr.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floordiv(a, b)
    return call("floordiv_elem", (a, b), reader.dtype_of(expr))


def _floormod(reader: ExpressionReader, expr: Any) -> Term:
    a, b = reader(expr.a), reader(expr.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floormod(a, b)
    return call("floormod_elem", (a, b), reader.dtype_of(expr))


def _truncmod(reader: ExpressionReader, expr: Any) -> Term:
    a, b = reader(expr.a), reader(expr.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return a - b * truncdiv(a, b)
    return call("truncmod", (a, b), reader.dtype_of(expr))


def _cast(reader: ExpressionReader, expr: Any) -> Term:
    value, dtype = reader(expr.value), reader.dtype_of(expr)
    if isinstance(value, Int) and dtype == "int32" and reader.dtype_of(expr.value) == "int32":
        return value
    return cast(value, dtype)


def _select(reader: ExpressionReader, expr: Any) -> Term:
    return _choice(reader, expr.condition, expr.true_value, expr.false_value)


def _choice(reader: ExpressionReader, condition: Any, yes: Any, no: Any) -> Term:
    """A selection; each branch is read under its condition."""
    test, outside = reader(condition), reader.conditions
    try:
        reader.conditions = (*outside, *parts(test))
        a = reader(yes)
        reader.conditions = (*outside, *parts(negate(test)))
        b = reader(no)
    finally:
        reader.conditions = outside
    return ite(test, a, b)


def _let(reader: ExpressionReader, expr: Any) -> Term:
    inner = ExpressionReader(_Inner(expr.var, reader(expr.value), reader.env), reader.read)
    inner.vectors, inner.lane, inner.conditions = reader.vectors, reader.lane, reader.conditions
    body = inner(expr.body)
    reader.lane = inner.lane
    return body


@dataclass(frozen=True)
class _Inner:
    """One variable in front of others."""

    var: Any
    value: Term
    outer: Env

    def get(self, var: Any) -> Term | None:
        return self.value if var.same_as(self.var) else self.outer.get(var)


def _bits(reader: ExpressionReader, op: str, expr: Any, a: Any, b: Any) -> Term:
    count, dtype = getattr(b, "value", None), reader.dtype_of(expr)
    if op in ("shl", "shr") and isinstance(count, int) and not 0 <= count < width(dtype):
        raise Unliftable("a shift by at least the bit width is undefined", script(expr)[:80])
    return bitwise(op, reader(a), reader(b), dtype)


_EFFECT = "TCallEffectKind"
_UNPACKED = {"likely", "if_then_else"}


def _call(reader: ExpressionReader, expr: Any) -> Term:
    if not isinstance(expr.op, tvm.ir.Op):
        raise Unliftable("a call of a function that is not an operator", script(expr)[:80])
    name = str(expr.op.name).split(".")[-1]
    check_arity(expr, name in _UNPACKED)
    if name == "likely":
        return reader(expr.args[0])
    if name == "if_then_else":
        return _choice(reader, *expr.args)
    if name in _BIT_CALLS:
        return _bits(reader, _BIT_CALLS[name], expr, *expr.args)
    effect = expr.op.get_attr(_EFFECT)
    if effect is None or int(effect) > 1:
        raise Unliftable(f"unsupported call of {expr.op.name}", script(expr)[:80])
    args = tuple(_argument(reader, a) for a in items(expr.args))
    if reader.lane is not None:
        check_lanes(expr)
    return call(_RENAMED.get(name, name), args, reader.dtype_of(expr))


def _argument(reader: ExpressionReader, expr: Any) -> Term:
    return const(str(expr.value), "str") if type(expr).__name__ == "StringImm" else reader(expr)


_RULES: dict[str, Callable[[ExpressionReader, Any], Term]] = {
    "IntImm": _int_imm,
    "FloatImm": _float_imm,
    "Var": _var,
    TENSOR_LOAD: _load,
    "FloorDiv": _floordiv,
    "FloorMod": _floormod,
    "Mod": _truncmod,
    "Cast": _cast,
    "Select": _select,
    "Let": _let,
    "Ramp": _ramp,
    "Broadcast": _broadcast,
    "Call": _call,
    "And": lambda reader, expr: conj(reader(expr.a), reader(expr.b)),
    "Or": lambda reader, expr: disj(reader(expr.a), reader(expr.b)),
    "Not": lambda reader, expr: negate(reader(expr.a)),
    "Min": lambda reader, expr: extreme("min", reader(expr.a), reader(expr.b)),
    "Max": lambda reader, expr: extreme("max", reader(expr.a), reader(expr.b)),
    "BitwiseNot": lambda reader, expr: call("bitnot", (reader(expr.a),), reader.dtype_of(expr)),
}
