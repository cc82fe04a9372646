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
from ...terms.integer import floordiv, floormod
from ...terms.scalar import call, conj, disj, extreme, ite, negate, parts
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
from .node import Dtypes, items, lanes_of, script
from .operations import arithmetic, bitwise, cast, compare, truncdiv, width


class Unliftable(Exception):
    """A PrimFunc, or a part of it, is not understood; the message has the reason and the place."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(f"{reason} ({where})" if where else reason)
        self.reason, self.where = reason, where


Read = Callable[[Any, tuple[Int, ...]], Term]


class Env(Protocol):
    """Values of scalar variables."""

    def get(self, v: Any, /) -> Term | None:
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
        self.given: tuple[Term, ...] = ()  # conditions of enclosing selections
        self.vectors = False  # whether vectors are allowed: only in a store
        self.lane: Var | None = None  # the lane of the vector that is read, if there is one

    def dtype_of(self, e: Any) -> str:
        """Return the data type of a number, as text."""
        dtype = self._dtype_of(e)
        if not dtype:
            raise Unliftable("an expression is not a number", script(e)[:80])
        return dtype

    def index(self, e: Any) -> Int:
        """Return an integer; the type of a literal does not matter."""
        if type(e) is tvm.tirx.IntImm:
            return integer(e.value)
        return as_int(self(e))

    def __call__(self, e: Any) -> Term:
        kind = type(e).__name__
        if kind in _ARITH:
            a, b = self(e.a), self(e.b)
            integers = isinstance(a, Int) and isinstance(b, Int)
            return arithmetic(_ARITH[kind], a, b, "int" if integers else self.dtype_of(e))
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, e)
        if kind in _COMPARE:
            return compare(_COMPARE[kind], self(e.a), self(e.b))
        if kind in _BITS:
            return _bits(self, _BITS[kind], e, e.a, e.b)
        raise Unliftable(f"expression {kind} is not understood", script(e)[:80])


def _int_imm(r: ExpressionReader, e: Any) -> Term:
    dtype = r.dtype_of(e)
    if dtype in INT_DTYPES:
        return integer(int(e.value))
    if dtype == "bool":
        return TRUE if int(e.value) else FALSE
    return const(int(e.value), dtype)


def _float_imm(r: ExpressionReader, e: Any) -> Term:
    return const(float(e.value), r.dtype_of(e))


def _var(r: ExpressionReader, e: Any) -> Term:
    value = r.env.get(e)
    if value is None:
        if is_buffer_var(e):
            raise Unliftable("a buffer is used as a pointer", script(e)[:80])
        raise Unliftable("variable is not bound", script(e)[:80])
    return value


def _load(r: ExpressionReader, e: Any) -> Term:
    if is_predicated(e):
        raise Unliftable("a load under a predicate is not understood", script(e)[:80])
    indices = items(e.indices)
    index = tuple(r.index(i) for i in indices)
    if r.lane is not None:
        check_index(indices)
    return r.read(source_of(e), index)


def check_index(indices: Sequence[Any]) -> None:
    """Check that only the last coordinate of an access is a vector."""
    if any(lanes_of(str(i.ty.dtype)) != 1 for i in indices[:-1]):
        at = ", ".join(map(script, indices))
        raise Unliftable("a vector of coordinates that is not the last", at[:80])


def _lane(r: ExpressionReader, e: Any, inside: Sequence[Any]) -> Int:
    """The lane that is read; one variable for the whole store."""
    count = lanes_of(str(e.ty.dtype))
    if not r.vectors or count < 1 or any(lanes_of(str(x.ty.dtype)) != 1 for x in inside):
        raise Unliftable("a vector is not understood here", script(e)[:80])
    if r.lane is None:
        r.lane = fresh(integer(count), "lane")
    if r.lane.extent is not integer(count):
        raise Unliftable("vectors of different lengths in one store", script(e)[:80])
    return as_int(r.lane)


def _ramp(r: ExpressionReader, e: Any) -> Term:
    lane = _lane(r, e, (e.base, e.stride))
    return r.index(e.base) + mul(lane, r.index(e.stride))


def _broadcast(r: ExpressionReader, e: Any) -> Term:
    _lane(r, e, (e.value,))
    return r(e.value)


def _floordiv(r: ExpressionReader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floordiv(a, b)
    return call("floordiv_elem", (a, b), r.dtype_of(e))


def _floormod(r: ExpressionReader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return floormod(a, b)
    return call("floormod_elem", (a, b), r.dtype_of(e))


def _truncmod(r: ExpressionReader, e: Any) -> Term:
    a, b = r(e.a), r(e.b)
    if isinstance(a, Int) and isinstance(b, Int):
        return a - b * truncdiv(a, b)
    return call("truncmod", (a, b), r.dtype_of(e))


def _cast(r: ExpressionReader, e: Any) -> Term:
    value, dtype = r(e.value), r.dtype_of(e)
    if isinstance(value, Int) and dtype == "int32" and r.dtype_of(e.value) == "int32":
        return value
    return cast(value, dtype)


def _select(r: ExpressionReader, e: Any) -> Term:
    return _choice(r, e.condition, e.true_value, e.false_value)


def _choice(r: ExpressionReader, condition: Any, yes: Any, no: Any) -> Term:
    """A selection; each branch is read under its condition."""
    c, outside = r(condition), r.given
    try:
        r.given = (*outside, *parts(c))
        a = r(yes)
        r.given = (*outside, *parts(negate(c)))
        b = r(no)
    finally:
        r.given = outside
    return ite(c, a, b)


def _let(r: ExpressionReader, e: Any) -> Term:
    inner = ExpressionReader(_Inner(e.var, r(e.value), r.env), r.read)
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


def _bits(r: ExpressionReader, op: str, e: Any, a: Any, b: Any) -> Term:
    count, dtype = getattr(b, "value", None), r.dtype_of(e)
    if op in ("shl", "shr") and isinstance(count, int) and not 0 <= count < width(dtype):
        raise Unliftable("a shift by no less than the width has no result", script(e)[:80])
    return bitwise(op, r(a), r(b), dtype)


_EFFECT = "TCallEffectKind"
_UNPACKED = {"likely", "if_then_else"}


def _call(r: ExpressionReader, e: Any) -> Term:
    if not isinstance(e.op, tvm.ir.Op):
        raise Unliftable("call of a function that is not an operator", script(e)[:80])
    name = str(e.op.name).split(".")[-1]
    _check_arity(e, name in _UNPACKED)
    if name == "likely":
        return r(e.args[0])
    if name == "if_then_else":
        return _choice(r, *e.args)
    if name in _BIT_CALLS:
        return _bits(r, _BIT_CALLS[name], e, *e.args)
    effect = e.op.get_attr(_EFFECT)
    if effect is None or int(effect) > 1:
        raise Unliftable(f"call of {e.op.name} is opaque", script(e)[:80])
    args = tuple(_argument(r, a) for a in items(e.args))
    if r.lane is not None:
        _check_lanes(e)
    return call(_RENAMED.get(name, name), args, r.dtype_of(e))


def _check_arity(e: Any, exact: bool) -> None:
    """Check the number of operands, which TVM's builders check and its readers do not.

    Not all operators register the right number: ``fmod`` registers 1.
    """
    count, expected = len(e.args), int(e.op.num_inputs)
    if count < expected or (exact and count != expected):
        raise Unliftable(f"a call of {e.op.name} with {count} operands, expected {expected}")


def _check_lanes(e: Any) -> None:
    """Check that a call with vectors applies to each lane separately."""
    counts = [lanes_of(str(x.ty.dtype)) for x in (e, *e.args) if hasattr(x.ty, "dtype")]
    each = e.op.get_attr("TVectorizable")
    if any(c != 1 for c in counts) and (not each or counts[0] != max(counts)):
        raise Unliftable(f"call of {e.op.name} on vectors is not understood", script(e)[:80])


def _argument(r: ExpressionReader, a: Any) -> Term:
    return const(str(a.value), "str") if type(a).__name__ == "StringImm" else r(a)


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
    "And": lambda r, e: conj(r(e.a), r(e.b)),
    "Or": lambda r, e: disj(r(e.a), r(e.b)),
    "Not": lambda r, e: negate(r(e.a)),
    "Min": lambda r, e: extreme("min", r(e.a), r(e.b)),
    "Max": lambda r, e: extreme("max", r(e.a), r(e.b)),
    "BitwiseNot": lambda r, e: call("bitnot", (r(e.a),), r.dtype_of(e)),
}
