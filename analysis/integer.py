"""Integer normal form: floor division, bounds and the order of polynomials.

``x % d`` is never a node of its own: it is ``x - d * (x // d)``. With that one choice
``x // 4 * 4 + x % 4`` is ``x``, ``(x % 12) // 4`` is ``x // 4 - 3 * (x // 12)``, and nested, fused
and split indices that are equal mostly are the same polynomial.

Divisors are positive; a division whose divisor is not known to be positive is an opaque call.
"""

from __future__ import annotations

import math

from .term import (
    ONE,
    SIZES,
    ZERO,
    Call,
    Int,
    Mono,
    Term,
    Var,
    as_int,
    integer,
    mul,
    polynomial,
    raw_call,
)

Bounds = tuple[Int | None, Int | None]


# ---------------------------------------------------------------------------- division


def floordiv(p: Int, d: Int) -> Int:
    """``floor(p / d)``."""
    if d is ONE:
        return p
    if p.const is not None and d.const:
        return integer(p.const // d.const)
    if not positive(d):
        return as_int(raw_call("floordiv_any", (p, d), "int"))
    key = f"//{d.uid}"
    found = p.memo.get(key)
    if found is None:
        found = p.memo[key] = _floordiv(p, d)
    return found


def floormod(p: Int, d: Int) -> Int:
    """``p - d * floor(p / d)``."""
    if not positive(d):
        return as_int(raw_call("floormod_any", (p, d), "int"))
    return p - mul(d, floordiv(p, d))


def _floordiv(p: Int, d: Int) -> Int:
    quotient, rest = _divide(p, d)
    if rest.const is not None and d.const:
        return quotient + rest.const // d.const
    inside = _constant_quotient(rest, d)
    if inside is not None:
        return quotient + inside
    rest, extra = _reduce_coefficients(rest, d)
    quotient = quotient + extra
    inside = _constant_quotient(rest, d)
    if inside is not None:
        return quotient + inside
    shorter = _drop_digits(rest, d) or _nested(rest, d)
    if shorter is not None:
        return quotient + shorter
    return quotient + as_int(raw_call("floordiv", (rest, d), "int"))


def _divide(p: Int, d: Int) -> tuple[Int, Int]:
    """``p = d * quotient + rest``, moving into the quotient what the leading term of d divides."""
    lead_mono, lead_coef = max(d.terms, key=lambda t: (len(t[0]), abs(t[1])))
    quotient = ZERO
    for _ in range(64):
        step: dict[Mono, int] = {}
        for mono, coef in p.terms:
            left = _remove(mono, lead_mono)
            if left is not None and coef % lead_coef == 0:
                step[left] = coef // lead_coef
                if len(d.terms) > 1:
                    break
        if not step:
            break
        part = polynomial(step)
        quotient, p = quotient + part, p - mul(d, part)
        if len(d.terms) == 1:
            break
    return quotient, p


def _remove(mono: Mono, factor: Mono) -> Mono | None:
    left = list(mono)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _constant_quotient(p: Int, d: Int) -> Int | None:
    """The quotient if the bounds of p leave only one."""
    lo, hi = bounds(p)
    if lo is None or hi is None:
        return None
    if lo.const is not None and hi.const is not None and d.const:
        return integer(lo.const // d.const) if lo.const // d.const == hi.const // d.const else None
    if nonneg(lo) and nonneg(d - hi - 1):
        return ZERO
    if nonneg(lo + d) and nonneg(-hi - 1):
        return integer(-1)
    return None


def _reduce_coefficients(p: Int, d: Int) -> tuple[Int, Int]:
    """Coefficients modulo a literal divisor: ``(7x - 1) // 4 = x - 1 + (3x + 3) // 4``."""
    k = d.const
    if k is None:
        return p, ZERO
    extra = polynomial({m: c // k for m, c in p.terms})
    return p - mul(d, extra), extra


def _drop_digits(p: Int, d: Int) -> Int | None:
    """``(g*big + small) // (g*e) = big // e`` where ``0 <= small < g``; also the common factor."""
    for g in _factors(p, d):
        big = polynomial({m: c for m, c in p.terms if _divides(g, m, c)})
        small = p - big
        if small is p:
            continue
        lo, hi = bounds(small)
        if lo is None or hi is None:
            continue
        if not (nonneg(lo) and nonneg(g - hi - 1)):
            if lo.const is None or g.const is None or hi.const is None:
                continue
            if lo.const // g.const != hi.const // g.const:
                continue
            big = big + g * (lo.const // g.const)
        return floordiv(_divide(big, g)[0], _divide(d, g)[0])
    return None


def _divides(g: Int, mono: Mono, coef: int) -> bool:
    gm, gc = g.terms[0]
    return coef % gc == 0 and _remove(mono, gm) is not None


def _factors(p: Int, d: Int) -> list[Int]:
    """Proper divisors of d that divide some term of p, largest first."""
    if len(d.terms) != 1:
        return []
    dm, dc = d.terms[0]
    found = {}
    for mono, coef in p.terms:
        if not mono:
            continue
        gc = math.gcd(coef, dc)
        gm = tuple(a for a in dm if a in mono)
        g = polynomial({gm: gc})
        if g is not ONE and g is not d:
            found[g] = (len(gm), gc)
    return sorted(found, key=lambda g: found[g], reverse=True)


def _nested(p: Int, d: Int) -> Int | None:
    """``(x // c + k) // d = (x + k*c) // (c*d)``."""
    inner: Call | None = None
    shift = ZERO
    for mono, coef in p.terms:
        if not mono:
            shift = integer(coef)
        elif len(mono) == 1 and coef == 1 and inner is None and is_div(mono[0]):
            inner = mono[0]  # type: ignore[assignment]
        else:
            return None
    if inner is None:
        return None
    num, den = inner.args
    assert isinstance(num, Int) and isinstance(den, Int)
    return floordiv(num + mul(shift, den), mul(den, d))


def is_div(atom: Term) -> bool:
    return isinstance(atom, Call) and atom.op == "floordiv"


# ---------------------------------------------------------------------------- bounds


def bounds(p: Int) -> Bounds:
    """Inclusive bounds as polynomials over sizes; None where there is none."""
    found = p.memo.get("bounds")
    if found is None:
        found = p.memo["bounds"] = _bounds(p)
    return found


def _bounds(p: Int) -> Bounds:
    if p.const is not None:
        return p, p
    lo: Int | None = ZERO
    hi: Int | None = ZERO
    low = high = 0  # the literal part is summed apart: it is most of the work
    for mono, coef in p.terms:
        a, b = _mono_bounds(mono) if mono else (ONE, ONE)
        if coef < 0:
            a, b = b, a
        if a is None:
            lo = None
        elif (k := a.const) is not None:
            low += k * coef
        elif lo is not None:
            lo = lo + a * coef
        if b is None:
            hi = None
        elif (k := b.const) is not None:
            high += k * coef
        elif hi is not None:
            hi = hi + b * coef
    plain = (None if lo is None else lo + low, None if hi is None else hi + high)
    return _tighter(plain, _digit_bounds(p))


def _tighter(one: Bounds, two: Bounds) -> Bounds:
    """The second bound unless the first is known to be as good."""
    lo, hi = one
    if two[0] is not None and (lo is None or not nonneg(lo - two[0])):
        lo = two[0]
    if two[1] is not None and (hi is None or not nonneg(two[1] - hi)):
        hi = two[1]
    return lo, hi


def _digit_bounds(p: Int) -> Bounds:
    """Bounds from a pair ``k*x - k*d*(x // d)``, which is k times a digit in ``[0, d)``."""
    for mono, coef in p.terms:
        for atom in mono:
            if not is_div(atom):
                continue
            num, den = atom.args  # type: ignore[attr-defined]
            others = polynomial({_remove(mono, (atom,)) or (): coef})
            k, left = _divide(-others, den)
            if left is not ZERO:
                continue
            rest = p - mul(others, as_int(atom)) - mul(k, num)
            if len(rest.terms) >= len(p.terms) or (k.const is None and not _signed(k)):
                continue
            digit = mul(k, den - 1)
            lo, hi = bounds(rest)
            if nonneg(k):
                return lo, None if hi is None else hi + digit
            return None if lo is None else lo + digit, hi
    return None, None


def _signed(k: Int) -> bool:
    return nonneg(k) or nonneg(-k)


def _mono_bounds(mono: Mono) -> Bounds:
    lo: Int | None = ONE
    hi: Int | None = ONE
    for atom in mono:
        if closed(atom):
            a = b = as_int(atom)
        else:
            a, b = atom_bounds(atom)  # type: ignore[assignment]
        if len(mono) == 1:
            return a, b
        if a is None or not nonneg(a):
            return None, None
        lo = None if lo is None else mul(lo, a)
        hi = None if hi is None or b is None else mul(hi, b)
    return lo, hi


def closed(t: Term) -> bool:
    """Whether a term is over sizes only: then it is its own bound."""
    if isinstance(t, Var):
        return t.kind in SIZES
    if isinstance(t, Int):
        return all(closed(a) for mono, _ in t.terms for a in mono)
    return isinstance(t, Call) and all(closed(a) for a in t.args)


def atom_bounds(atom: Term) -> Bounds:
    if isinstance(atom, Var):
        if atom.kind == "size":
            return as_int(atom), as_int(atom)
        return (None, None) if atom.extent is None else (ZERO, atom.extent - 1)
    if isinstance(atom, Call):
        rule = _CALL_BOUNDS.get(atom.op)
        if rule is not None:
            return rule(atom)
    if atom.dtype in ("bool", "uint8"):
        return ZERO, integer(1 if atom.dtype == "bool" else 255)
    return None, None


def _div_bounds(atom: Call) -> Bounds:
    num, den = atom.args
    assert isinstance(num, Int) and isinstance(den, Int)
    lo, hi = bounds(num)
    if lo is num and hi is num:
        return _least_quotient(num, den), as_int(atom)
    return (
        None if lo is None else floordiv(lo, den),
        None if hi is None else floordiv(hi, den),
    )


def _least_quotient(num: Int, den: Int) -> Int | None:
    """A lower bound of ``num // den`` over sizes, which are at least 1."""
    k = den.const
    if k is not None and all(c >= 0 for m, c in num.terms if m):
        least = sum(c for _, c in num.terms) // k
        if all(isinstance(a, Var) for m, _ in num.terms for a in m):
            return integer(least)
    return ZERO if nonneg(num) else None


def _extreme_bounds(atom: Call) -> Bounds:
    ends = [bounds(as_int(a)) for a in atom.args]
    pick = min if atom.op == "min" else max

    def combine(values: list[Int | None], keep_known: bool) -> Int | None:
        known = [v for v in values if v is not None]
        if (len(known) < len(values) and not keep_known) or not known:
            return None
        if all(v.const is not None for v in known):
            return integer(pick(v.const for v in known if v.const is not None))
        if keep_known:
            return known[0]
        for v in known:
            if all(nonneg((w - v) if pick is min else (v - w)) for w in known):
                return v
        return None

    return (
        combine([e[0] for e in ends], atom.op == "max"),
        combine([e[1] for e in ends], atom.op == "min"),
    )


def _ite_bounds(atom: Call) -> Bounds:
    one, two = bounds(as_int(atom.args[1])), bounds(as_int(atom.args[2]))
    out: list[Int | None] = []
    for sign, a, b in ((1, one[0], two[0]), (-1, one[1], two[1])):
        if a is None or b is None:
            out.append(None)
        elif nonneg((b - a) * sign):
            out.append(a)
        elif nonneg((a - b) * sign):
            out.append(b)
        else:
            out.append(None)
    return out[0], out[1]


def _bit_bounds(atom: Call) -> Bounds:
    ends = [bounds(as_int(a)) for a in atom.args]
    if any(lo is None or hi is None or lo.const is None or hi.const is None for lo, hi in ends):
        return None, None
    if any(lo.const < 0 for lo, _ in ends):  # type: ignore[union-attr,operator]
        return None, None
    tops = [hi.const for _, hi in ends]  # type: ignore[union-attr]
    if atom.op == "bitand":
        return ZERO, integer(min(tops))  # type: ignore[type-var,arg-type]
    return ZERO, integer((1 << max(t.bit_length() for t in tops)) - 1)  # type: ignore[union-attr]


_CALL_BOUNDS = {
    "floordiv": _div_bounds,
    "min": _extreme_bounds,
    "max": _extreme_bounds,
    "ite": _ite_bounds,
    "bitxor": _bit_bounds,
    "bitor": _bit_bounds,
    "bitand": _bit_bounds,
}


# ---------------------------------------------------------------------------- order


def nonneg(p: Int) -> bool:
    """Whether ``p >= 0`` is certain; False means not known."""
    if p.const is not None:
        return p.const >= 0
    found = p.memo.get("nonneg")
    if found is None:
        p.memo["nonneg"] = False  # a question that leads back to itself is not known
        found = p.memo["nonneg"] = _nonneg(p)
    return found


def positive(p: Int) -> bool:
    return nonneg(p - 1)


def _nonneg(p: Int) -> bool:
    lo, _ = bounds(p)
    if lo is not None and lo is not p and nonneg(lo):
        return True
    if lo is not None and lo.const is not None:
        return False
    return _shifted_nonneg(p) or _digit_nonneg(p)


def _digit_nonneg(p: Int) -> bool:
    """A remainder by a symbolic divisor, whose plain lower bound says nothing."""
    lo, _ = _digit_bounds(p)
    return lo is not None and lo is not p and nonneg(lo)


def _shifted_nonneg(p: Int) -> bool:
    """Write each atom as its least value plus a non-negative rest; are all coefficients >= 0?"""
    out: dict[Mono, int] = {}
    for mono, coef in p.terms:
        parts: dict[Mono, int] = {(): coef}
        for atom in mono:
            least = _least(atom)
            if least is None:
                return False
            grown: dict[Mono, int] = {}
            for m, c in parts.items():
                grown[m] = grown.get(m, 0) + c * least
                longer = tuple(sorted((*m, atom), key=lambda t: t.uid))
                grown[longer] = grown.get(longer, 0) + c
            parts = grown
        for m, c in parts.items():
            out[m] = out.get(m, 0) + c
    return all(c >= 0 for c in out.values())


def _least(atom: Term) -> int | None:
    if isinstance(atom, Var):
        return 1 if atom.kind == "size" else 0 if atom.extent is not None else None
    lo, _ = atom_bounds(atom)
    if lo is None:
        return None
    return lo.const if lo.const is not None else 0 if nonneg(lo) else None
