"""Terms: the language in which opinfo expresses what a PrimFunc computes.

A term is an immutable, interned value: equal terms are the same object, so equality is ``is``, and
analyses cache their results on the term itself. Integer expressions (``int32`` / ``int64``) are
polynomials (`Int`) over atoms, with the normal form of `analysis.terms.integer`; every other term
is a `Const`, `Load`, `CallTerm`, `Reduce` or `Fold`.

Integers are mathematical: index arithmetic is assumed not to overflow, as TVM assumes. A variable
carries its own domain, so a simplification that uses a bound needs no context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from .interning import TABLE, Interned, intern_new
from .work_budget import spend

#: Longer sums are counted as work when they are created.
LONG = 8


class Term(Interned):
    """Base of all terms; `Interned` describes the attributes."""

    __slots__ = ()
    children: tuple[Term, ...]
    reads: frozenset[TensorVar]
    free: frozenset[Var] | None

    def __repr__(self) -> str:
        return Later.show(self)


class Later:
    """Operations of terms that are defined by modules built on terms, which set them on import.

    The package imports these modules, so they are set before any term is created.
    """

    show: ClassVar[Callable[[Term], str]]
    floordiv: ClassVar[Callable[[Int, Int], Int]]
    floormod: ClassVar[Callable[[Int, Int], Int]]


class TensorVar:
    """A buffer as a value; equality is identity, not the name.

    ``position`` is its position among the parameters, or -1 for an inner buffer. A ``scalar`` is
    not in memory: it is a parameter that is passed by value, which has the shape ().
    """

    __slots__ = ("dtype", "name", "position", "scalar", "shape")

    def __init__(
        self,
        name: str,
        shape: tuple[Int, ...],
        dtype: str,
        position: int = -1,
        scalar: bool = False,
    ) -> None:
        self.name, self.shape, self.dtype, self.position = name, shape, dtype, position
        self.scalar = scalar

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}]"


class Var(Term):
    """An integer variable.

    ``axis``, ``loop`` and ``reduce`` range over ``[0, extent)``, ``size`` is at least 1, ``scalar``
    and ``free`` are any integer. ``dtype`` is that of a scalar parameter, ``int`` for others.
    """

    __slots__ = ("extent", "kind", "name")
    kind: str
    name: str
    extent: Int | None


class Int(Term):
    """An integer polynomial: ``terms`` maps monomials (sorted tuples of atoms) to coefficients.

    ``const`` is the value if this is a literal, ``atom`` the atom if it is exactly one, with
    coefficient one; else they are None.
    """

    __slots__ = ("atom", "const", "terms")
    terms: tuple[tuple[tuple[Term, ...], int], ...]
    const: int | None
    atom: Term | None

    def __add__(self, other: Int | int) -> Int:
        return add(self, other) if isinstance(other, Int) else shift(self, other)

    def __sub__(self, other: Int | int) -> Int:
        return sub(self, other) if isinstance(other, Int) else shift(self, -other)

    def __mul__(self, other: Int | int) -> Int:
        return mul(self, other) if isinstance(other, Int) else scale(self, other)

    def __neg__(self) -> Int:
        return scale(self, -1)

    def __floordiv__(self, other: Int | int) -> Int:
        return Later.floordiv(self, other if isinstance(other, Int) else integer(other))

    def __mod__(self, other: Int | int) -> Int:
        return Later.floormod(self, other if isinstance(other, Int) else integer(other))

    __radd__ = __add__
    __rmul__ = __mul__


class Const(Term):
    """A literal that is not an index integer."""

    __slots__ = ("value",)
    value: Any


class Load(Term):
    """``tensor[indices]``."""

    __slots__ = ("indices", "tensor")
    tensor: TensorVar
    indices: tuple[Int, ...]


class CallTerm(Term):
    """``op(*args)``: an operation without side effects, with a result of type ``dtype``."""

    __slots__ = ("args", "op")
    op: str
    args: tuple[Term, ...]


class Reduce(Term):
    """``init ⊕ ⊕_{axes} body`` for a commutative, associative ``op``."""

    __slots__ = ("axes", "body", "init", "op")
    op: str
    axes: tuple[Var, ...]
    body: Term
    init: Term


class Fold(Term):
    """``states[0]`` after ``for axis: states = updates``, simultaneously, from ``inits``."""

    __slots__ = ("axis", "inits", "states", "updates")
    axis: Var
    states: tuple[CallTerm, ...]
    inits: tuple[Term, ...]
    updates: tuple[Term, ...]


# ---------------------------------------------------------------------------- polynomials

Mono = tuple[Term, ...]
_SMALL: dict[int, Int] = {}


def _mono_key(item: tuple[Mono, int]) -> tuple[int, ...]:
    mono = item[0]
    return (1, mono[0].uid) if len(mono) == 1 else (len(mono), *[a.uid for a in mono])


def polynomial(terms: dict[Mono, int]) -> Int:
    """Return the interned polynomial, without zero coefficients."""
    kept = [item for item in terms.items() if item[1]]
    if len(kept) > LONG:
        spend(len(kept) // 2)
    if len(kept) > 1:
        kept.sort(key=_mono_key)
    return _polynomial(tuple(kept))


def _polynomial(items: tuple[tuple[Mono, int], ...]) -> Int:
    """The polynomial of sorted terms."""
    entry = TABLE.get(items)
    cached: Any = None if entry is None else entry()
    if cached is None:
        atoms = tuple([a for mono, _ in items for a in mono])
        cached = intern_new(Int, items, "int", atoms)
        cached.terms = items
        single = len(items) == 1
        cached.const = 0 if not items else items[0][1] if single and not atoms else None
        cached.atom = atoms[0] if single and len(atoms) == 1 and items[0][1] == 1 else None
    return cached  # type: ignore[no-any-return]


def integer(value: int) -> Int:
    """Return an integer as a polynomial."""
    cached = _SMALL.get(value)
    if cached is None:
        cached = polynomial({(): value})
        if -64 <= value <= 4096:  # kept alive, because these recur in every function
            _SMALL[value] = cached
    return cached


def as_int(term: Term) -> Int:
    """Return an integer-valued term as a polynomial."""
    return term if isinstance(term, Int) else _polynomial((((term,), 1),))


def bare(term: Term) -> Term:
    """Return a term without the polynomial around a single atom."""
    return (term.atom or term) if isinstance(term, Int) else term


def only(poly: Int) -> Var | None:
    """Return the variable if the polynomial is exactly one variable, else None."""
    return poly.atom if isinstance(poly.atom, Var) else None


def add(a: Int, b: Int) -> Int:
    """Return the sum of two polynomials."""
    if not a.terms:
        return b
    if (k := b.const) is not None:
        return shift(a, k)
    out = dict(a.terms)
    for mono, coef in b.terms:
        out[mono] = out.get(mono, 0) + coef
    return polynomial(out)


def shift(poly: Int, k: int) -> Int:
    """Return ``poly + k``; the literal term of a polynomial is its first."""
    if not k:
        return poly
    terms = poly.terms
    if terms and not terms[0][0]:
        k += terms[0][1]
        terms = terms[1:]
    return _polynomial((((), k), *terms) if k else terms)


def sub(a: Int, b: Int) -> Int:
    """Return the difference of two polynomials."""
    if a is b:
        return ZERO
    if (k := b.const) is not None:
        return shift(a, -k)
    out = dict(a.terms)
    for mono, coef in b.terms:
        out[mono] = out.get(mono, 0) - coef
    return polynomial(out)


def scale(poly: Int, k: int) -> Int:
    if k == 1:
        return poly
    return _polynomial(tuple([(m, c * k) for m, c in poly.terms])) if k else ZERO


def mul(a: Int, b: Int) -> Int:
    """Return the product of two polynomials."""
    if (k := b.const) is not None:
        return scale(a, k)
    if (k := a.const) is not None:
        return scale(b, k)
    pairs = len(a.terms) * len(b.terms)
    if pairs > LONG:
        spend(pairs // 2)
    out: dict[Mono, int] = {}
    for m1, c1 in a.terms:
        for m2, c2 in b.terms:
            mono = tuple(sorted(m1 + m2, key=lambda term: term.uid))
            out[mono] = out.get(mono, 0) + c1 * c2
    return polynomial(out)


def total(parts: Iterable[Int]) -> Int:
    out = ZERO
    for part in parts:
        out = add(out, part)
    return out


ZERO = integer(0)
ONE = integer(1)
