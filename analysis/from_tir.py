"""TIR expressions as terms.

The reader knows the value of every scalar variable in scope and asks its ``read`` callback for
elements of buffers. An expression it does not understand raises :class:`Unliftable`; nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
from tvm.tirx.buffer import is_buffer_var

from .integer import floordiv, floormod
from .node import Dtypes, items
from .order import bounds, nonneg
from .rewrite import tensors
from .scalar import call, conj, disj, eq0, extreme, ge0, ite, negate
from .term import (
    FALSE,
    INT_DTYPES,
    TRUE,
    Call,
    Int,
    Term,
    as_int,
    const,
    integer,
    raw_call,
)


class Unliftable(Exception):
    """What could not be understood, and where."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{reason} ({where})" if where else reason)
        self.reason, self.where = reason, where


Read = Callable[[Any, tuple[Int, ...]], Term]


class Env(Protocol):
    """Values of scalar variables."""

    def get(self, v: Any, /) -> Term | None:
        """The value of a variable, or None if it is not bound."""


_ARITH = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}
_COMPARE = {"LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "EQ": "eq", "NE": "ne"}
_BITS = {
    "BitwiseAnd": "bitand",
    "BitwiseOr": "bitor",
    "BitwiseXor": "bitxor",
    "LShift": "shl",
    "RShift": "shr",
}
_RENAMED = {"if_then_else": "ite", "fabs": "abs", "bitwise_not": "bitnot"}
_BIT_CALLS = {
    "bitwise_and": "bitand",
    "bitwise_or": "bitor",
    "bitwise_xor": "bitxor",
    "shift_left": "shl",
    "shift_right": "shr",
}


class Reader:
    """Converts expressions under an environment of scalar variables."""

    def __init__(self, env: Env, read: Read) -> None:
        self.env, self.read = env, read
        self.dtype_of = Dtypes()

    def index(self, e: Any) -> Int:
        return as_int(self(e))

    def __call__(self, e: Any) -> Term:
        kind = type(e).__name__
        if kind in _ARITH:
            return self.arithmetic(_ARITH[kind], self(e.a), self(e.b), e)
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, e)
        if kind in _COMPARE:
            return compare(_COMPARE[kind], self(e.a), self(e.b))
        if kind in _BITS:
            return bitwise(_BITS[kind], self(e.a), self(e.b), self.dtype_of(e))
        raise Unliftable(f"expression {kind} is not understood", str(e)[:80])

    def arithmetic(self, op: str, a: Term, b: Term, e: Any) -> Term:
        if isinstance(a, Int) and isinstance(b, Int):
            if op == "add":
                return a + b
            if op == "sub":
                return a - b
            if op == "mul":
                return a * b
            return truncdiv(a, b)
        return call(op, (a, b), self.dtype_of(e))


def compare(op: str, a: Term, b: Term) -> Term:
    """A comparison; between integers one of ``ge0`` and ``eq0``."""
    if op in ("gt", "ge"):
        op, a, b = {"gt": "lt", "ge": "le"}[op], b, a
    if isinstance(a, Int) or isinstance(b, Int):
        d = as_int(b) - as_int(a)
        if op == "lt":
            return ge0(d - 1)
        if op == "le":
            return ge0(d)
        return eq0(d) if op == "eq" else negate(eq0(d))
    return call(op, (a, b), "bool")


def bitwise(op: str, a: Term, b: Term, dtype: str) -> Term:
    if dtype == "bool" and op in ("bitand", "bitor"):
        return (conj if op == "bitand" else disj)(a, b)
    if isinstance(a, Int) and isinstance(b, Int):
        k, (lo, _) = b.const, bounds(a)
        if op == "shl" and k is not None and k >= 0:
            return a * (1 << k)
        if op == "shr" and k is not None and k >= 0:
            return floordiv(a, integer(1 << k))
        if op == "bitand" and k is not None and k >= 0 and k & (k + 1) == 0:
            return floormod(a, integer(k + 1))
        if op == "bitand" and lo is not None and k == 0:
            return integer(0)
    if op not in ("shl", "shr"):
        a, b = sorted((a, b), key=lambda t: t.uid)
    return call(op, (a, b), dtype)


def truncdiv(a: Int, b: Int) -> Int:
    """C division; where both sides are not negative it is floor division."""
    if all(lo is not None and nonneg(lo) for lo, _ in (bounds(a), bounds(b))):
        return floordiv(a, b)
    return as_int(raw_call("truncdiv", (a, b), "int"))


def _int_imm(r: Reader, e: Any) -> Term:
    dtype = r.dtype_of(e)
    if dtype in INT_DTYPES:
        return integer(int(e.value))
    if dtype == "bool":
        return TRUE if int(e.value) else FALSE
    return const(int(e.value), dtype)


def _float_imm(r: Reader, e: Any) -> Term:
    return const(float(e.value), r.dtype_of(e))


def _var(r: Reader, e: Any) -> Term:
    value = r.env.get(e)
    if value is None:
        if is_buffer_var(e):
            raise Unliftable("a buffer is used as a pointer", str(e))
        raise Unliftable("variable is not bound", str(e))
    return value


def _load(r: Reader, e: Any) -> Term:
    return r.read(e.source, tuple(r.index(i) for i in items(e.indices)))


def _floordiv(r: Reader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floordiv(a, b)
    return call("floordiv_elem", (a, b), r.dtype_of(e))


def _floormod(r: Reader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floormod(a, b)
    return call("floormod_elem", (a, b), r.dtype_of(e))


def _truncmod(r: Reader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return a - b * truncdiv(a, b)
    return call("truncmod", (a, b), r.dtype_of(e))


#: Types whose every value is one of the index type.
_SMALL = frozenset({"int8", "int16", "uint8", "uint16"})
_WIDENED = {"int32": _SMALL, "int64": _SMALL | {"uint32"}, "int": _SMALL | {"uint32"}}


def cast(value: Term, dtype: str) -> Term:
    """A conversion; widening integers and narrowing a bounded or pure index is the identity."""
    if value.dtype == dtype:
        return value
    if dtype in INT_DTYPES:
        if isinstance(value, Int):
            if dtype == "int64" or _fits_int32(value):
                return value
            return as_int(raw_call("cast", (value,), dtype))
        if value.dtype == "bool":
            return ite(value, integer(1), integer(0))
        if value.dtype in _WIDENED[dtype]:
            return as_int(value)
    return call("cast", (value,), dtype)


def _fits_int32(value: Int) -> bool:
    return not tensors(value) or (isinstance(value.atom, Call) and value.atom.dtype == "int32")


def _cast(r: Reader, e: Any) -> Term:
    value, dtype = r(e.value), r.dtype_of(e)
    if isinstance(value, Int) and dtype == "int32" and r.dtype_of(e.value) == "int32":
        return value
    return cast(value, dtype)


def _select(r: Reader, e: Any) -> Term:
    return ite(r(e.condition), r(e.true_value), r(e.false_value))


def _let(r: Reader, e: Any) -> Term:
    value = r(e.value)
    return Reader(_Inner(e.var, value, r.env), r.read)(e.body)


@dataclass(frozen=True)
class _Inner:
    """One variable in front of others."""

    var: Any
    value: Term
    outer: Env

    def get(self, v: Any) -> Term | None:
        return self.value if v.same_as(self.var) else self.outer.get(v)


_EFFECT = "TCallEffectKind"


def _call(r: Reader, e: Any) -> Term:
    if not isinstance(e.op, tvm.ir.Op):
        raise Unliftable("call of a function that is not an operator", str(e)[:80])
    name = str(e.op.name).split(".")[-1]
    if name == "likely":
        return r(e.args[0])
    if name in _BIT_CALLS:
        return bitwise(_BIT_CALLS[name], r(e.args[0]), r(e.args[1]), r.dtype_of(e))
    effect = e.op.get_attr(_EFFECT)
    if name != "if_then_else" and (effect is None or int(effect) > 1):
        raise Unliftable(f"call of {e.op.name} is opaque", str(e)[:80])
    args = tuple(_argument(r, a) for a in items(e.args))
    return call(_RENAMED.get(name, name), args, r.dtype_of(e))


def _argument(r: Reader, a: Any) -> Term:
    return const(str(a.value), "str") if type(a).__name__ == "StringImm" else r(a)


_RULES: dict[str, Callable[[Reader, Any], Term]] = {
    "IntImm": _int_imm,
    "FloatImm": _float_imm,
    "Var": _var,
    "TensorLoad": _load,
    "FloorDiv": _floordiv,
    "FloorMod": _floormod,
    "Mod": _truncmod,
    "Cast": _cast,
    "Select": _select,
    "Let": _let,
    "Call": _call,
    "And": lambda r, e: conj(r(e.a), r(e.b)),
    "Or": lambda r, e: disj(r(e.a), r(e.b)),
    "Not": lambda r, e: negate(r(e.a)),
    "Min": lambda r, e: extreme("min", r(e.a), r(e.b)),
    "Max": lambda r, e: extreme("max", r(e.a), r(e.b)),
    "BitwiseNot": lambda r, e: call("bitnot", (r(e.a),), r.dtype_of(e)),
}
