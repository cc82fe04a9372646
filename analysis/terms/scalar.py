"""Smart constructors for scalar operations.

Floating-point operations keep their order of evaluation. Only the operands of a single ``add`` or
``mul`` are sorted, which does not change the result.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping

from .casts import narrowed
from .condition_terms import conj, disj, eq0, ge0, ite, negate
from .integer import floordiv
from .order import bounds, nonneg
from .term import CallTerm, Const, Int, Term, as_int, const, integer, raw_call
from .term.work_budget import spend

#: No index exceeds it, so ``min(n, MAX_INT64)`` is n.
MAX_INT64 = 2**63 - 1
COMMUTES = frozenset({"add", "mul", "eq", "ne", "bitand", "bitor", "bitxor"})


def extreme(op: str, a: Term, b: Term) -> Term:
    """Return ``min`` or ``max``; over integers n-ary, sorted, without operands that cannot win."""
    if not (isinstance(a, Int) and isinstance(b, Int)):
        return raw_call(op, (a, b), a.dtype)
    flat: dict[Int, None] = {}
    for poly in (a, b):
        atom = poly.atom
        nested = isinstance(atom, CallTerm) and atom.op == op
        flat.update(dict.fromkeys(map(as_int, atom.args) if nested else (poly,)))  # type: ignore[union-attr]
    if len(flat) > 3:
        spend(2 * len(flat) ** 2)
    sign = 1 if op == "min" else -1
    end = MAX_INT64 if op == "min" else MAX_INT64 + 1
    never = [t for t in flat if t.const is not None and t.const * sign >= end]
    keep = [t for t in flat if t not in never] or never[:1]
    for poly in list(keep):
        if any(o is not poly and nonneg((poly - o) * sign) for o in keep):
            keep.remove(poly)
    if len(keep) == 1:
        return keep[0]
    return as_int(raw_call(op, tuple(sorted(keep, key=lambda term: term.uid)), "int"))


#: Each floating-point type represents all integers up to here.
WHOLE = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}


def call(op: str, args: tuple[Term, ...], dtype: str) -> Term:
    """Return any operation by its name, in normal form if it has one."""
    if op == "ite":
        return ite(*args)
    if op in ("and", "or"):
        return (conj if op == "and" else disj)(*args)
    if op == "not":
        return negate(args[0])
    if op in ("min", "max"):
        out = args[0]
        for term in args[1:]:
            out = extreme(op, out, term)
        return out
    if op == "ge0":
        return ge0(as_int(args[0]))
    if op == "eq0":
        return eq0(as_int(args[0]))
    if op == "floordiv":
        return floordiv(as_int(args[0]), as_int(args[1]))
    if op == "bitxor" and all(isinstance(a, Int) for a in args):
        from .bits import xor

        return xor(*map(as_int, args))
    if op == "cast" and isinstance(args[0], Int) and dtype in WHOLE:
        value = args[0].const
        if value is not None and abs(value) <= WHOLE[dtype]:
            return const(float(value), dtype)
    if op == "cast" and (narrow := narrowed(args[0], dtype, call)) is not None:
        return narrow
    if (
        op == "cast"
        and dtype != "bool"
        and isinstance(args[0], CallTerm)
        and (args[0].dtype == "bool")
    ):
        one, zero = _flags(dtype)
        return ite(args[0], one, zero)
    if op == "sub" and dtype in WHOLE:
        sign = _sign(args, dtype)
        if sign is not None:
            return sign
    if op in FOLDED and dtype in WHOLE:
        folded = _whole_literal(op, args, dtype)
        if folded is not None:
            return folded
    if op == "sqrt" and isinstance(args[0], Const):
        root = _root(args[0].value, dtype)
        if root is not None:
            return const(root, dtype)
    if op in ("add", "shl", "shr") and dtype in NARROW:
        simple = _shift(op, args) if op != "add" else _without_zero(args)
        if simple is not None:
            return simple
    if op == "bitand" and dtype in NARROW and (whole := _unmasked(args, dtype)) is not None:
        return whole
    if op in COMMUTES:
        args = tuple(sorted(args, key=lambda term: term.uid))
    out = raw_call(op, args, dtype)
    return as_int(out) if dtype in ("int", "int32", "int64") else out


#: Operations on literals that are evaluated if operands and result are whole, thus not rounded.
FOLDED: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
}  # fmt: skip


def _sign(args: tuple[Term, ...], dtype: str) -> Term | None:
    """``(a < b) - (b < a)`` as a choice: not both hold, also of NaN."""
    flags = [t.args for t in args if isinstance(t, CallTerm) and t.op == "ite"]
    if len(flags) != 2 or any(not is_const(a[1], 1) or not is_const(a[2], 0) for a in flags):
        return None
    first, second = flags[0][0], flags[1][0]
    if not (isinstance(first, CallTerm) and isinstance(second, CallTerm)):
        return None
    if (first.op, second.op) != ("lt", "lt") or first.args != second.args[::-1]:
        return None
    one, zero = _flags(dtype)
    return ite(first, one, ite(second, const(-1.0, dtype), zero))


#: Integers that are not polynomials, with their bits.
NARROW = {f"{sign}int{b}": b for sign in ("", "u") for b in (8, 16)} | {"uint32": 32, "uint64": 64}


def _without_zero(args: tuple[Term, ...]) -> Term | None:
    """``0 + x`` is x."""
    for zero, other in (args, args[::-1]):
        if is_const(zero, 0):
            return other
    return None


def _shift(op: str, args: tuple[Term, ...]) -> Term | None:
    """``x << 0`` is x; ``(x & (mask << s)) >> s`` is ``(x >> s) & mask`` if no bit is lost."""
    value, by = args
    if is_const(by, 0):
        return value
    dtype = value.dtype
    if op == "shl" or not dtype.startswith("uint") or not isinstance(value, CallTerm):
        return None
    for mask, other in (value.args, value.args[::-1]) if value.op == "bitand" else ():
        if isinstance(mask, CallTerm) and mask.op == "shl" and mask.args[1] is by:
            bits, most = mask.args[0], _most(by)
            if isinstance(bits, Const) and isinstance(bits.value, int) and most is not None:
                if bits.value >= 0 and bits.value << most < 2 ** NARROW[dtype]:
                    return call("bitand", (call("shr", (other, by), dtype), bits), dtype)
    return None


def _unmasked(args: tuple[Term, ...], dtype: str) -> Term | None:
    """``(x >> s) & mask`` as ``x >> s``, if the mask has all bits left of an unsigned x."""
    for mask, value in (args, args[::-1]):
        if not (isinstance(mask, Const) and isinstance(value, CallTerm) and value.op == "shr"):
            continue
        by = value.args[1]
        if isinstance(by, Const) and isinstance(by.value, int) and dtype.startswith("uint"):
            left = 2 ** max(NARROW[dtype] - by.value, 0) - 1
            if by.value >= 0 and mask.value & left == left:
                return value
    return None


def _most(by: Term) -> int | None:
    """The greatest number of bits of a shift."""
    if isinstance(by, Const):
        return by.value if isinstance(by.value, int) else None
    index = by.args[0] if isinstance(by, CallTerm) and by.op == "cast" else by
    lo, hi = bounds(index) if isinstance(index, Int) else (None, None)
    if lo is None or hi is None or lo.const is None or hi.const is None or lo.const < 0:
        return None
    return hi.const if hi.const < 2**7 else None


def _flags(dtype: str) -> tuple[Term, Term]:
    """One and zero, to which a condition is cast."""
    if dtype in ("int", "int32", "int64"):
        return integer(1), integer(0)
    return (
        (const(1.0, dtype), const(0.0, dtype))
        if "float" in dtype
        else (const(1, dtype), const(0, dtype))
    )


def _root(value: object, dtype: str) -> float | None:
    """The root of a literal as its dtype has it: IEEE 754 prescribes how a root is rounded."""
    if not isinstance(value, float) or not 0 < value < math.inf:
        return None
    root = math.sqrt(value)
    if dtype == "float64" or (root.is_integer() and root * root == value):
        return root
    if dtype == "float32" and struct.unpack("f", struct.pack("f", value))[0] == value:
        return float(struct.unpack("f", struct.pack("f", root))[0])  # of 24 bits: rounded once
    return None


def _whole_literal(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """The result on two whole literals, if its dtype has it exactly; a zero could have a sign."""
    if len(args) != 2 or not all(isinstance(a, Const) for a in args):
        return None
    a, b = (a.value for a in args)  # type: ignore[attr-defined]
    if not all(isinstance(v, float) and v.is_integer() for v in (a, b)):
        return None
    value = FOLDED[op](a, b)
    return const(value, dtype) if 0 < abs(value) <= WHOLE[dtype] else None


def is_const(term: Term, value: float) -> bool:
    """Return whether the term is this number, whatever its type."""
    if isinstance(term, Int):
        return term.const is not None and term.const == value
    return isinstance(term, Const) and not isinstance(term.value, str) and term.value == value


def is_literal(term: Term) -> bool:
    """Return whether a term is a literal of any type."""
    return isinstance(term, Const) or (isinstance(term, Int) and term.const is not None)
