"""Rules of `scalar.call` for conditions as numbers, and for integers that wrap around."""

from __future__ import annotations

from collections.abc import Callable

from .condition_terms import ite
from .order import bounds
from .term import CallTerm, Const, Int, Term, const, integer
from .term.literals import WHOLE, is_const

Call = Callable[[str, tuple[Term, ...], str], Term]

#: Integers that are not polynomials, with their bits.
NARROW = {f"{sign}int{b}": b for sign in ("", "u") for b in (8, 16)} | {"uint32": 32, "uint64": 64}


def without_zero(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """``0 + x`` is x."""
    for zero, other in (args, args[::-1]) if dtype in NARROW else ():
        if is_const(zero, 0):
            return other
    return None


def shifted(op: str, args: tuple[Term, ...], dtype: str, call: Call) -> Term | None:
    """``x << 0`` is x; ``(x & (mask << s)) >> s`` is ``(x >> s) & mask`` if no bit is lost."""
    if dtype not in NARROW:
        return None
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


def unmasked(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """``(x >> s) & mask`` as ``x >> s``, if the mask has all bits left of an unsigned x."""
    for mask, value in (args, args[::-1]) if dtype in NARROW else ():
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


def sign(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """``(a < b) - (b < a)`` as a choice: not both hold, also of NaN."""
    if dtype not in WHOLE:
        return None
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


def flag(op: str, args: tuple[Term, ...], dtype: str) -> Term | None:
    """The cast of a condition as a choice of two numbers."""
    if dtype == "bool" or not isinstance(args[0], CallTerm) or args[0].dtype != "bool":
        return None
    return ite(args[0], *_flags(dtype))


def _flags(dtype: str) -> tuple[Term, Term]:
    """One and zero, to which a condition is cast."""
    if dtype in ("int", "int32", "int64"):
        return integer(1), integer(0)
    number = float if "float" in dtype else int
    return const(number(1), dtype), const(number(0), dtype)
