"""Terms: the language in which opinfo expresses what a PrimFunc computes.

A term is an immutable, interned value: equal terms are the same object, so equality is ``is``, and
analyses cache their results on the term itself. Integer expressions (``int32`` / ``int64``) are
polynomials (`Int`) over atoms, with the normal form of `analysis.terms.integer`; every other term
is a `Const`, `Load`, `CallTerm`, `Reduce` or `Fold`.

Integers are mathematical: index arithmetic is assumed not to overflow, as TVM assumes. A variable
carries its own domain, so a simplification that uses a bound needs no context.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from .work import look, spend

_UID = itertools.count()
#: Longer sums are counted as work when they are created.
LONG = 8


class Term:
    """Base of all terms.

    Attributes:
        memo: A cache for results of analyses.
        children: The terms that it consists of.
        reads: The tensors that it loads from.
        free: The cached result of `free`.
    """

    __slots__ = ("__weakref__", "children", "dtype", "free", "memo", "reads", "uid")
    uid: int
    dtype: str
    memo: dict[str, Any]
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


class _Entry(weakref.ref[Term]):
    """A weak reference to a term in the table, with its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_NOTHING: frozenset[TensorVar] = frozenset()
_TABLE: dict[tuple[Any, ...], _Entry] = {}


def _forget(entry: _Entry) -> None:
    """Remove a dead term; its key may already have a new one."""
    current = _TABLE.pop(entry.key, entry)
    if current is not entry:
        _TABLE[entry.key] = current


def _interned(key: tuple[Any, ...]) -> Any:
    entry = _TABLE.get(key)
    return None if entry is None else entry()


def _new(cls: type[Term], key: tuple[Any, ...], dtype: str, children: tuple[Term, ...]) -> Any:
    term = cls.__new__(cls)
    term.uid = next(_UID)
    if not term.uid & 4095:  # reading the clock for each term would cost too much
        look()
    term.dtype, term.memo, term.children, term.free = dtype, {}, children, None
    reads = _NOTHING
    for child in children:
        if child.reads is not reads and child.reads:
            reads = reads | child.reads if reads else child.reads
    term.reads = reads
    entry = _TABLE[key] = _Entry(term, _forget)
    entry.key = key
    return term


def recall(term: Term, key: str) -> Any:
    """Return the cached term, or None."""
    entry = term.memo.get(key)
    return None if entry is None else entry()


def remember(term: Term, key: str, value: Term) -> None:
    """Cache a term that ``term`` may be a part of; it lives as long as something else refers to it.

    The table's keys refer to the parts of a term, so a part that referred to it would keep it
    forever.
    """
    term.memo[key] = weakref.ref(value)


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


# ---------------------------------------------------------------------------- constructors

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
    entry = _TABLE.get(items)
    cached: Any = None if entry is None else entry()
    if cached is None:
        atoms = tuple([a for mono, _ in items for a in mono])
        cached = _new(Int, items, "int", atoms)
        cached.terms = items
        single = len(items) == 1
        cached.const = 0 if not items else items[0][1] if single and not atoms else None
        cached.atom = atoms[0] if single and len(atoms) == 1 and items[0][1] == 1 else None
    return cached  # type: ignore[no-any-return]


def integer(value: int) -> Int:
    cached = _SMALL.get(value)
    if cached is None:
        cached = polynomial({(): value})
        if -64 <= value <= 4096:  # kept alive, because these recur in every function
            _SMALL[value] = cached
    return cached


def as_int(term: Term) -> Int:
    """Return an integer-valued term as a polynomial."""
    return term if isinstance(term, Int) else _polynomial((((term,), 1),))


def add(a: Int, b: Int) -> Int:
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


def var(kind: str, name: str, extent: Int | None = None) -> Int:
    """Return the variable as an integer; a variable of extent 1 is 0."""
    return ZERO if extent is ONE else as_int(variable(kind, name, extent))


def variable(kind: str, name: str, extent: Int | None = None, dtype: str = "int") -> Var:
    key = (Var, kind, name, extent, dtype)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(Var, key, dtype, ())
        cached.kind, cached.name, cached.extent = kind, name, extent
    return cached  # type: ignore[no-any-return]


def fresh(extent: Int, stem: str = "i") -> Var:
    """Return a new loop variable."""
    return variable("loop", f"{stem}{next(_UID)}", extent)


def axis(position: int, extent: Int) -> Int:
    """Return the ``position``-th coordinate of a buffer: the same term for equal extents."""
    return var("axis", f"y{position}", extent)


def size(name: str) -> Int:
    """Return a symbolic extent, which is at least 1."""
    return as_int(variable("size", name))


def const(value: Any, dtype: str) -> Const:
    key = (Const, repr(value), dtype)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(Const, key, dtype, ())
        cached.value = value
    return cached  # type: ignore[no-any-return]


def load(tensor: TensorVar, indices: tuple[Int, ...]) -> Term:
    """Return the element, as an `Int` if the tensor holds ``int32`` or ``int64``."""
    key = (Load, tensor, indices)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(Load, key, tensor.dtype, indices)
        cached.tensor, cached.indices = tensor, indices
        cached.reads |= {tensor}
    return as_int(cached) if tensor.dtype in INT_DTYPES else cached


def raw_call(op: str, args: tuple[Term, ...], dtype: str) -> CallTerm:
    """Return a call node without simplification; use `call` outside the algebra."""
    key = (CallTerm, op, args, dtype)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(CallTerm, key, dtype, args)
        cached.op, cached.args = op, args
    return cached  # type: ignore[no-any-return]


def raw_reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Reduce:
    key = (Reduce, op, axes, body, init)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(Reduce, key, dtype, (body, init))
        cached.op, cached.axes, cached.body, cached.init = op, axes, body, init
    return cached  # type: ignore[no-any-return]


def fold(
    axis: Var, states: tuple[CallTerm, ...], inits: tuple[Term, ...], updates: tuple[Term, ...]
) -> Term:
    """Return the fold without simplification, as an `Int` if its result is one; see `make_fold`."""
    inits, updates = (
        tuple(as_int(t) if s.dtype in INT_DTYPES else t for s, t in zip(states, terms, strict=True))
        for terms in (inits, updates)
    )
    key = (Fold, axis, states, inits, updates)
    cached: Any = _interned(key)
    if cached is None:
        cached = _new(Fold, key, states[0].dtype, (*updates, *inits))
        cached.axis, cached.states, cached.inits, cached.updates = axis, states, inits, updates
    return as_int(cached) if cached.dtype in INT_DTYPES else cached


INT_DTYPES: frozenset[str] = frozenset({"int", "int32", "int64"})
#: Kinds of variables that have one value throughout a function.
SIZES = frozenset({"size", "scalar"})
ZERO = integer(0)
ONE = integer(1)
#: The number of iterations of a ``while`` loop: as many as change the state.
FOREVER = as_int(raw_call("forever", (), "int"))
TRUE = const(True, "bool")
FALSE = const(False, "bool")
