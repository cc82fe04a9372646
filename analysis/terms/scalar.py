"""Smart constructors for conditions, selections and scalar arithmetic.

Conditions over integers have two forms, ``ge0(p)`` and ``eq0(p)``; connectives are n-ary, sorted,
without duplicates. Floating-point operations keep their order of evaluation. Only the operands of a
single ``add`` or ``mul`` are sorted, which does not change the result.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping

from .integer import floordiv
from .order import bounds, nonneg
from .quotient import is_div
from .term import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    CallTerm,
    Const,
    Int,
    Reduce,
    Term,
    Var,
    as_int,
    const,
    integer,
    raw_call,
    raw_reduce,
    recall,
    remember,
)
from .work import spend

#: No index exceeds it, so ``min(n, MAX_INT64)`` is n.
MAX_INT64 = 2**63 - 1
COMMUTES = frozenset({"add", "mul", "eq", "ne", "bitand", "bitor", "bitxor"})


def ge0(poly: Int) -> Term:
    """Return ``poly >= 0``."""
    condition: Term | None = recall(poly, "ge0")
    if condition is None:
        condition = _ge0(poly)
        remember(poly, "ge0", condition)
    return condition


def _ge0(poly: Int) -> Term:
    if nonneg(poly):
        return TRUE
    if nonneg(-poly - 1):
        return FALSE
    chosen = _over_choice(poly, ge0)
    if chosen is not None:
        return chosen
    floored = _unfloor(poly)
    if floored is not None:
        return ge0(floored)
    coarser = _coarser(poly)
    return raw_call("ge0", (poly,), "bool") if coarser is poly else ge0(coarser)


def _over_choice(poly: Int, test: Callable[[Int], Term]) -> Term | None:
    """``test(k*(a if c else b) + d)`` with literals: ``test(k*a + d) if c else test(k*b + d)``."""
    linear = [(m, c) for m, c in poly.terms if m]
    if len(linear) != 1 or len(linear[0][0]) != 1:
        return None
    atom = linear[0][0][0]
    if not (isinstance(atom, CallTerm) and atom.op == "ite"):
        return None
    condition, a, b = atom.args
    if as_int(a).const is None or as_int(b).const is None:
        return None
    others = poly - as_int(atom) * linear[0][1]
    yes, no = (test(as_int(v) * linear[0][1] + others) for v in (a, b))
    return ite(condition, yes, no)


def _unfloor(poly: Int) -> Int | None:
    """``c * (x // d) + k >= 0`` iff ``x - d * ceil(-k / c) >= 0``, and the same for ``c < 0``."""
    linear = [(m, c) for m, c in poly.terms if m]
    if len(linear) > 1:
        return _unfloor_one(poly)
    if len(linear) != 1 or len(linear[0][0]) != 1 or not is_div(linear[0][0][0]):
        return None
    num, den = linear[0][0][0].args  # type: ignore[attr-defined]
    c, k = linear[0][1], next((c for m, c in poly.terms if not m), 0)
    if c > 0:
        return as_int(num) - as_int(den) * -(k // c)
    return as_int(den) * (k // -c + 1) - 1 - as_int(num)


def _unfloor_one(poly: Int) -> Int | None:
    """``r + x // d >= 0`` iff ``d*r + x >= 0``; ``r - x//d >= 0`` iff ``d*r + d - 1 - x >= 0``."""
    divisions = [(m, c) for m, c in poly.terms if any(is_div(a) for a in m)]
    if len(divisions) != 1 or len(divisions[0][0]) != 1 or abs(divisions[0][1]) != 1:
        return None
    (atom,), sign = divisions[0]
    num, den = map(as_int, atom.args)  # type: ignore[attr-defined]
    others = poly - as_int(atom) * sign
    out = others * den + num if sign == 1 else others * den + den - 1 - num
    return None if _divisions(out) else out


def _coarser(poly: Int) -> Int:
    """``poly >= 0`` iff ``poly // g >= 0``: divide for fewer terms, without new divisions."""
    for g in sorted({abs(c) for m, c in poly.terms if m and abs(c) > 1}, reverse=True):
        quotient = floordiv(poly, integer(g))
        exact = all(c % g == 0 for m, c in poly.terms if m)
        if _divisions(quotient) <= _divisions(poly) and (
            exact or len(quotient.terms) < len(poly.terms)
        ):
            return quotient
    return poly


def _divisions(poly: Int) -> int:
    return sum(1 for m, _ in poly.terms for a in m if is_div(a))


def eq0(poly: Int) -> Term:
    """Return ``poly == 0``."""
    if poly.const is not None:
        return TRUE if poly.const == 0 else FALSE
    chosen = _over_choice(poly, eq0)
    if chosen is not None:
        return chosen
    lo, hi = bounds(poly)
    if (lo is not None and nonneg(lo - 1)) or (hi is not None and nonneg(-hi - 1)):
        return FALSE
    g = math.gcd(*(c for m, c in poly.terms if m))
    shift = next((c for m, c in poly.terms if not m), 0)
    if shift % g:
        return FALSE
    poly = floordiv(poly, integer(g))
    lead = max(poly.terms, key=lambda t: (len(t[0]), *(a.uid for a in t[0])))
    if lead[1] < 0:
        poly = -poly
    lo, hi = bounds(poly)
    if lo is not None and lo.const == 0 and _single(poly):
        return ge0(-poly)
    if hi is not None and hi.const == 0 and _single(poly):
        return ge0(poly)
    return raw_call("eq0", (poly,), "bool")


def _single(poly: Int) -> bool:
    return len(poly.terms) == 1 or (len(poly.terms) == 2 and not poly.terms[0][0])


def conj(*conditions: Term) -> Term:
    return _connective("and", TRUE, FALSE, conditions)


def disj(*conditions: Term) -> Term:
    return _connective("or", FALSE, TRUE, conditions)


def _connective(op: str, unit: Term, absorbing: Term, conditions: tuple[Term, ...]) -> Term:
    flat: dict[Term, None] = {}
    for term in conditions:
        for part in parts(term, op):
            if part is absorbing:
                return absorbing
            if part is not unit:
                flat[part] = None
    if not flat:
        return unit
    if len(flat) == 1:
        return next(iter(flat))
    spend(1 + len(flat) // 4)
    if any(negate(c) in flat for c in flat if isinstance(c, CallTerm) and c.op in ("ge0", "not")):
        return absorbing
    return raw_call(op, tuple(sorted(flat, key=lambda term: term.uid)), "bool")


def parts(condition: Term, op: str = "and") -> tuple[Term, ...]:
    """Return the conjuncts (or disjuncts) of a condition."""
    if isinstance(condition, CallTerm) and condition.op == op:
        return condition.args
    return (condition,)


def negate(term: Term) -> Term:
    if term is TRUE or term is FALSE:
        return FALSE if term is TRUE else TRUE
    if isinstance(term, CallTerm):
        if term.op == "not":
            return term.args[0]
        if term.op == "ge0":
            return ge0(-as_int(term.args[0]) - 1)
        if term.op in ("and", "or"):
            cached: Term | None = recall(term, "not")
            if cached is None:
                cached = (disj if term.op == "and" else conj)(*map(negate, term.args))
                remember(term, "not", cached)
            return cached
    return raw_call("not", (term,), "bool")


def ite(condition: Term, a: Term, b: Term) -> Term:
    """Return ``a if condition else b``."""
    if condition is TRUE or a is b:
        return a
    if condition is FALSE:
        return b
    if a is TRUE and b is FALSE:
        return condition
    if a is FALSE and b is TRUE:
        return negate(condition)
    if isinstance(a, Int) or isinstance(b, Int):
        a, b = as_int(a), as_int(b)
    inner = _atom(a)
    if isinstance(inner, CallTerm) and inner.op == "ite":
        if _same(inner.args[2], b):
            return ite(conj(condition, inner.args[0]), inner.args[1], b)
        if inner.args[0] is condition:
            return ite(condition, inner.args[1], b)
    nested = _atom(b)
    if isinstance(nested, CallTerm) and nested.op == "ite":
        if nested.args[0] is condition:
            return ite(condition, a, nested.args[2])
        if _same(nested.args[1], a):
            return ite(disj(condition, nested.args[0]), a, nested.args[2])
    if isinstance(condition, CallTerm) and condition.op == "not":
        condition, a, b = condition.args[0], b, a
    out = raw_call("ite", (condition, a, b), "int" if isinstance(a, Int) else a.dtype)
    return as_int(out) if isinstance(a, Int) else out


def _atom(term: Term) -> Term | None:
    return term.atom if isinstance(term, Int) else term


def _same(a: Term, b: Term) -> bool:
    return a is b or (isinstance(b, Int) and as_int(a) is b)


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
    if op in FOLDED and dtype in WHOLE:
        folded = _whole_literal(op, args, dtype)
        if folded is not None:
            return folded
    if op == "sqrt" and isinstance(args[0], Const):
        root = _root(args[0].value, dtype)
        if root is not None:
            return const(root, dtype)
    if op in COMMUTES:
        args = tuple(sorted(args, key=lambda term: term.uid))
    out = raw_call(op, args, dtype)
    return as_int(out) if dtype in ("int", "int32", "int64") else out


#: Operations on literals that are evaluated if operands and result are whole, thus not rounded.
FOLDED: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
}  # fmt: skip


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


# ---------------------------------------------------------------------------- reductions


def _ends(unsigned: str, bits: int) -> tuple[int, int]:
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


#: Least and greatest values of the integer types that are not polynomials.
SMALL = {f"{u}int{b}": _ends(u, b) for u in ("", "u") for b in (8, 16)}


def identity(op: str, dtype: str) -> Term | None:
    """Return the identity element of a combiner, if it is a literal."""
    if op in ("add", "mul"):
        if dtype in ("int", "int32", "int64"):
            return ZERO if op == "add" else ONE
        value: float | int = 0 if op == "add" else 1
        return const(float(value) if "float" in dtype else value, dtype)
    if op in ("and", "or"):
        return TRUE if op == "and" else FALSE
    if op in ("max", "min"):
        if dtype in ("int", "int32", "int64"):
            return as_int(raw_call("lowest" if op == "max" else "highest", (), "int"))
        if "float" in dtype:
            return const(-math.inf if op == "max" else math.inf, dtype)
        if dtype in SMALL:
            return const(SMALL[dtype][op == "min"], dtype)
    return None


def reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Term:
    """Return ``init ⊕ ⊕_{axes} body``; nested reductions of one kind are merged."""
    if isinstance(init, Int) or isinstance(body, Int):
        body, init = as_int(body), as_int(init)
    unit = identity(op, dtype)
    inner = _atom(body)
    if unit is not None and isinstance(inner, CallTerm) and inner.op == "ite":
        hoisted = _hoist_guard(op, axes, inner, init, unit)
        if hoisted is not None:
            return hoisted
    if init is unit and isinstance(inner, CallTerm) and inner.op == op and unit in inner.args[:1]:
        remaining = inner.args[1:]
        if len(remaining) == 1:  # unit ⊕ f is f, up to the sign of zero, which the sum drops
            body = remaining[0]
    if isinstance(inner, Reduce) and inner.op == op and inner.init is unit:
        axes, body = (*axes, *inner.axes), inner.body
    elif not axes:
        return call(op, (init, body), dtype) if init is not unit else body
    out = raw_reduce(op, axes, body, init, dtype)
    return as_int(out) if dtype in ("int", "int32", "int64") else out


def _hoist_guard(
    op: str, axes: tuple[Var, ...], body: CallTerm, init: Term, unit: Term
) -> Term | None:
    """``⊕_a (⊕_b f if g else unit) = ⊕_{a,b} (f if g else unit)``."""
    inner = _atom(body.args[1])
    if not (_same(body.args[2], unit) and isinstance(inner, Reduce)):
        return None
    if inner.op != op or inner.init is not unit:
        return None
    merged = ite(body.args[0], inner.body, unit)
    return reduce(op, (*axes, *inner.axes), merged, init, inner.dtype)


def split_guard(body: Term, otherwise: Term) -> tuple[Term, Term]:
    """Return ``(g, f)`` for ``ite(g, f, otherwise)``; ``(TRUE, body)`` for any other."""
    atom = _atom(body)
    if isinstance(atom, CallTerm) and atom.op == "ite" and _same(atom.args[2], otherwise):
        return atom.args[0], atom.args[1]
    return TRUE, body


def is_const(term: Term, value: float) -> bool:
    """Return whether the term is this number, whatever its type."""
    if isinstance(term, Int):
        return term.const is not None and term.const == value
    return isinstance(term, Const) and not isinstance(term.value, str) and term.value == value
