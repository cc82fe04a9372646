"""Terms: the language in which opinfo says what a PrimFunc computes.

A term is an immutable, interned value: equal terms are the same object, so equality is ``is`` and
results of analyses are remembered on the term itself. Integer expressions (``int32`` / ``int64``)
are polynomials (`Int`) over atoms and have their own normal form in `analysis.terms.integer`;
everything else is a `Const`, `Load`, `CallTerm` or `Reduce`.

Integers are mathematical integers: index arithmetic is taken not to overflow, as TVM takes it.
A variable carries its own domain, so a simplification that uses a bound needs no context.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from .work import look, spend

_UID = itertools.count()
#: Longer sums are counted as work when they are made.
LONG = 8


class Term:
    """Base of all terms. ``memo`` holds what analyses remember about this term, ``children`` are
    the terms that it is made of, ``reads`` the tensors of loads in it; ``free`` is remembered by
    `free`."""

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
    """What terms do by modules that are built on terms: each of these sets its own when imported.

    The package imports both, so no term is made before.
    """

    show: ClassVar[Callable[[Term], str]]
    floordiv: ClassVar[Callable[[Int, Int], Int]]
    floormod: ClassVar[Callable[[Int, Int], Int]]


class _Entry(weakref.ref[Term]):
    """A term in the table, by the key that it is found with."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_NOTHING: frozenset[TensorVar] = frozenset()
_TABLE: dict[tuple[Any, ...], _Entry] = {}


def _forget(entry: _Entry) -> None:
    """A term is gone; its key may have a new one by now."""
    found = _TABLE.pop(entry.key, entry)
    if found is not entry:
        _TABLE[entry.key] = found


def _known(key: tuple[Any, ...]) -> Any:
    entry = _TABLE.get(key)
    return None if entry is None else entry()


def _new(cls: type[Term], key: tuple[Any, ...], dtype: str, children: tuple[Term, ...]) -> Any:
    made = cls.__new__(cls)
    made.uid = next(_UID)
    if not made.uid & 4095:
        look()
    made.dtype, made.memo, made.children, made.free = dtype, {}, children, None
    reads = _NOTHING
    for c in children:
        if c.reads is not reads and c.reads:
            reads = reads | c.reads if reads else c.reads
    made.reads = reads
    entry = _TABLE[key] = _Entry(made, _forget)
    entry.key = key
    return made


def recall(t: Term, key: str) -> Any:
    """What `remember` put there, or None."""
    entry = t.memo.get(key)
    return None if entry is None else entry()


def remember(t: Term, key: str, value: Term) -> None:
    """Keep a term that ``t`` may be a part of, as long as somebody else does.

    The table's keys hold the parts of a term, so a part that held the whole would never go.
    """
    t.memo[key] = weakref.ref(value)


class TensorVar:
    """A buffer as a value: identity is the object, not the name. ``position`` is its place among
    the parameters, -1 for a buffer inside."""

    __slots__ = ("dtype", "name", "position", "shape")

    def __init__(self, name: str, shape: tuple[Int, ...], dtype: str, position: int = -1) -> None:
        self.name, self.shape, self.dtype, self.position = name, shape, dtype, position

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}]"


class Var(Term):
    """An integer variable: ``axis``, ``loop`` and ``reduce`` range over ``[0, extent)``, ``size``
    is at least 1, ``scalar`` and ``free`` are any integer."""

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
    """``op(*args)``: an operation without side effect, of the result type ``dtype``."""

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
    """``states[0]`` after ``for axis: states = updates``, all at once, in order, from ``inits``."""

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
    """The interned polynomial; zero coefficients are dropped."""
    kept = [item for item in terms.items() if item[1]]
    if len(kept) > LONG:
        spend(len(kept) // 2)
    if len(kept) > 1:
        kept.sort(key=_mono_key)
    return _polynomial(tuple(kept))


def _polynomial(items: tuple[tuple[Mono, int], ...]) -> Int:
    """The polynomial of sorted terms."""
    entry = _TABLE.get(items)
    found: Any = None if entry is None else entry()
    if found is None:
        atoms = tuple([a for mono, _ in items for a in mono])
        found = _new(Int, items, "int", atoms)
        found.terms = items
        single = len(items) == 1
        found.const = 0 if not items else items[0][1] if single and not atoms else None
        found.atom = atoms[0] if single and len(atoms) == 1 and items[0][1] == 1 else None
    return found  # type: ignore[no-any-return]


def integer(value: int) -> Int:
    found = _SMALL.get(value)
    if found is None:
        found = polynomial({(): value})
        if -64 <= value <= 4096:
            _SMALL[value] = found
    return found


def as_int(term: Term) -> Int:
    """An integer-valued term as a polynomial."""
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


def shift(a: Int, k: int) -> Int:
    """``a + k``; the literal term of a polynomial is its first."""
    if not k:
        return a
    terms = a.terms
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


def scale(a: Int, k: int) -> Int:
    if k == 1:
        return a
    return _polynomial(tuple([(m, c * k) for m, c in a.terms])) if k else ZERO


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
            mono = tuple(sorted(m1 + m2, key=lambda t: t.uid))
            out[mono] = out.get(mono, 0) + c1 * c2
    return polynomial(out)


def total(parts: Iterable[Int]) -> Int:
    out = ZERO
    for part in parts:
        out = add(out, part)
    return out


def var(kind: str, name: str, extent: Int | None = None) -> Int:
    """The variable as an integer; one of extent 1 is 0."""
    return ZERO if extent is ONE else as_int(variable(kind, name, extent))


def variable(kind: str, name: str, extent: Int | None = None) -> Var:
    key = (Var, kind, name, extent)
    found: Any = _known(key)
    if found is None:
        found = _new(Var, key, "int", ())
        found.kind, found.name, found.extent = kind, name, extent
    return found  # type: ignore[no-any-return]


def fresh(extent: Int, stem: str = "i") -> Var:
    """A loop variable that nothing else mentions."""
    return variable("loop", f"{stem}{next(_UID)}", extent)


def axis(position: int, extent: Int) -> Int:
    """The ``position``-th coordinate of a buffer: the same term for equal extents."""
    return var("axis", f"y{position}", extent)


def size(name: str) -> Int:
    """A symbolic extent, at least 1."""
    return as_int(variable("size", name))


def const(value: Any, dtype: str) -> Const:
    key = (Const, repr(value), dtype)
    found: Any = _known(key)
    if found is None:
        found = _new(Const, key, dtype, ())
        found.value = value
    return found  # type: ignore[no-any-return]


def load(tensor: TensorVar, indices: tuple[Int, ...]) -> Term:
    """The element; as an `Int` where the tensor holds ``int32`` or ``int64``."""
    key = (Load, tensor, indices)
    found: Any = _known(key)
    if found is None:
        found = _new(Load, key, tensor.dtype, indices)
        found.tensor, found.indices = tensor, indices
        found.reads |= {tensor}
    return as_int(found) if tensor.dtype in INT_DTYPES else found


def raw_call(op: str, args: tuple[Term, ...], dtype: str) -> CallTerm:
    """A call node as it stands; callers outside the algebra want `call`."""
    key = (CallTerm, op, args, dtype)
    found: Any = _known(key)
    if found is None:
        found = _new(CallTerm, key, dtype, args)
        found.op, found.args = op, args
    return found  # type: ignore[no-any-return]


def raw_reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Reduce:
    key = (Reduce, op, axes, body, init)
    found: Any = _known(key)
    if found is None:
        found = _new(Reduce, key, dtype, (body, init))
        found.op, found.axes, found.body, found.init = op, axes, body, init
    return found  # type: ignore[no-any-return]


def fold(
    axis: Var, states: tuple[CallTerm, ...], inits: tuple[Term, ...], updates: tuple[Term, ...]
) -> Term:
    """The fold as it stands; as an `Int` where its result is one. See lifting/fold.py."""
    inits, updates = (
        tuple(as_int(t) if s.dtype in INT_DTYPES else t for s, t in zip(states, x, strict=True))
        for x in (inits, updates)
    )
    key = (Fold, axis, states, inits, updates)
    found: Any = _known(key)
    if found is None:
        found = _new(Fold, key, states[0].dtype, (*updates, *inits))
        found.axis, found.states, found.inits, found.updates = axis, states, inits, updates
    return as_int(found) if found.dtype in INT_DTYPES else found


INT_DTYPES: frozenset[str] = frozenset({"int", "int32", "int64"})
#: Kinds of variables that are one number throughout a function.
SIZES = frozenset({"size", "scalar"})
ZERO = integer(0)
ONE = integer(1)
#: The number of iterations of a ``while`` loop: as many as change something.
FOREVER = as_int(raw_call("forever", (), "int"))
TRUE = const(True, "bool")
FALSE = const(False, "bool")
