"""TIR expressions as terms.

The reader knows the value of every scalar variable in scope and asks its ``read`` callback for
elements of buffers. An expression it does not understand raises :class:`Unliftable`; nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tvm
from tvm.tirx.buffer import is_buffer_var

from ..terms.integer import floordiv, floormod
from ..terms.interval import interval
from ..terms.order import bounds, nonneg
from ..terms.rewrite import free, subterms, tensors
from ..terms.scalar import call, conj, disj, eq0, extreme, ge0, ite, negate, parts
from ..terms.term import (
    FALSE,
    INT_DTYPES,
    TRUE,
    Call,
    Int,
    Term,
    Var,
    as_int,
    const,
    fresh,
    integer,
    mul,
    raw_call,
)
from .node import Dtypes, items, lanes_of


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


#: Variables that are no data: sizes and what runs over a range.
_INDEX = frozenset({"size", "scalar", "loop", "axis", "reduce"})
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


class Reader:
    """Converts expressions under an environment of scalar variables."""

    def __init__(self, env: Env, read: Read) -> None:
        self.env, self.read = env, read
        self.dtype_of = Dtypes()
        self.given: tuple[Term, ...] = ()  # conditions of the selections around
        self.vectors = False  # whether vectors are understood: in a store
        self.lane: Var | None = None  # which of a vector's lanes is read, if one occurred

    def index(self, e: Any) -> Int:
        if type(e) is tvm.tirx.IntImm and self.dtype_of(e) in INT_DTYPES:
            return integer(e.value)
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
        if op == "shl" and k is not None and 0 <= k < 64 and _shifts(a, k, dtype):
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


def _shifts(a: Int, k: int, dtype: str) -> bool:
    """Whether ``a << k`` drops no bits; a scalar parameter may be anything."""
    if k == 0:
        return True
    return all(v.kind != "scalar" for v in free(a)) and fits(a * (1 << k), dtype)


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
    indices = items(e.indices)
    index = tuple(r.index(i) for i in indices)
    if r.lane is not None:
        check_index(indices)
    return r.read(e.source, index)


def check_index(indices: Sequence[Any]) -> None:
    """Only the last coordinate of an access may be a vector."""
    if any(lanes_of(str(i.ty.dtype)) != 1 for i in indices[:-1]):
        raise Unliftable("a vector of coordinates that is not the last", str(indices)[:80])


def _lane(r: Reader, e: Any, inside: Sequence[Any]) -> Int:
    """The number of the lane that is read; one for the whole store."""
    count = lanes_of(str(e.ty.dtype))
    if not r.vectors or count < 1 or any(lanes_of(str(x.ty.dtype)) != 1 for x in inside):
        raise Unliftable("a vector is not understood here", str(e)[:80])
    if r.lane is None:
        r.lane = fresh(integer(count), "lane")
    if r.lane.extent is not integer(count):
        raise Unliftable("vectors of different lengths in one store", str(e)[:80])
    return as_int(r.lane)


def _ramp(r: Reader, e: Any) -> Term:
    lane = _lane(r, e, (e.base, e.stride))
    return r.index(e.base) + mul(lane, r.index(e.stride))


def _broadcast(r: Reader, e: Any) -> Term:
    _lane(r, e, (e.value,))
    return r(e.value)


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
            if dtype == "int64" or fits(value, dtype) or _is_int32(value):
                return value
            return as_int(raw_call("cast", (value,), dtype))
        if value.dtype == "bool":
            return ite(value, integer(1), integer(0))
        if value.dtype in _WIDENED[dtype]:
            return as_int(value)
        if "float" in value.dtype:  # int32 or int64: certificates assume that it fits
            return as_int(raw_call("cast", (value,), "int"))
    return call("cast", (value,), dtype)


def fits(value: Int, dtype: str) -> bool:
    """Whether an integer is one of the type, by its bounds.

    Sizes have none: an index over them is assumed to fit if its coefficients do.
    """
    top = 1 << (31 if dtype == "int32" else 63)
    known = interval(value) or _literal_bounds(value)
    if known is not None:
        return -top <= known[0] and known[1] < top
    return not _of_data(value) and all(-top <= c < top for s in subterms(value) for c in _coefs(s))


def _literal_bounds(value: Int) -> tuple[int, int] | None:
    lo, hi = bounds(value)
    if lo is None or hi is None or lo.const is None or hi.const is None:
        return None
    return lo.const, hi.const


def _of_data(value: Int) -> bool:
    """Whether elements of tensors, or the states of a loop, are in it."""
    return bool(tensors(value)) or any(v.kind not in _INDEX for v in free(value))


def _coefs(t: Term) -> tuple[int, ...]:
    return tuple(c for _, c in t.terms) if isinstance(t, Int) else ()


def _is_int32(value: Int) -> bool:
    return isinstance(value.atom, Call) and value.atom.dtype == "int32"


def _cast(r: Reader, e: Any) -> Term:
    value, dtype = r(e.value), r.dtype_of(e)
    if isinstance(value, Int) and dtype == "int32" and r.dtype_of(e.value) == "int32":
        return value
    return cast(value, dtype)


def _select(r: Reader, e: Any) -> Term:
    return _choice(r, e.condition, e.true_value, e.false_value)


def _choice(r: Reader, condition: Any, yes: Any, no: Any) -> Term:
    """A selection; each branch is read under its condition."""
    c, outside = r(condition), r.given
    try:
        r.given = (*outside, *parts(c))
        one = r(yes)
        r.given = (*outside, *parts(negate(c)))
        two = r(no)
    finally:
        r.given = outside
    return ite(c, one, two)


def _let(r: Reader, e: Any) -> Term:
    inner = Reader(_Inner(e.var, r(e.value), r.env), r.read)
    inner.vectors, inner.lane, inner.given = r.vectors, r.lane, r.given
    body = inner(e.body)
    r.lane = inner.lane
    return body


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
    if name == "if_then_else":
        return _choice(r, *e.args)
    if name in _BIT_CALLS:
        return bitwise(_BIT_CALLS[name], r(e.args[0]), r(e.args[1]), r.dtype_of(e))
    effect = e.op.get_attr(_EFFECT)
    if effect is None or int(effect) > 1:
        raise Unliftable(f"call of {e.op.name} is opaque", str(e)[:80])
    args = tuple(_argument(r, a) for a in items(e.args))
    if r.lane is not None:
        _check_lanes(e)
    return call(_RENAMED.get(name, name), args, r.dtype_of(e))


def _check_lanes(e: Any) -> None:
    """A call with vectors must be of each lane by itself."""
    counts = [lanes_of(str(x.ty.dtype)) for x in (e, *e.args) if hasattr(x.ty, "dtype")]
    each = e.op.get_attr("TVectorizable")
    if any(c != 1 for c in counts) and (not each or counts[0] != max(counts)):
        raise Unliftable(f"call of {e.op.name} on vectors is not understood", str(e)[:80])


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
    "Ramp": _ramp,
    "Broadcast": _broadcast,
    "Call": _call,
    "And": lambda r, e: conj(r(e.a), r(e.b)),
    "Or": lambda r, e: disj(r(e.a), r(e.b)),
    "Not": lambda r, e: negate(r(e.a)),
    "Min": lambda r, e: extreme("min", r(e.a), r(e.b)),
    "Max": lambda r, e: extreme("max", r(e.a), r(e.b)),
    "BitwiseNot": lambda r, e: call("bitnot", (r(e.a),), r.dtype_of(e)),
}
