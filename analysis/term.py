"""Terms: the language in which opinfo says what a PrimFunc computes.

A term is an immutable, interned value: equal terms are the same object, so equality is ``is`` and
results of analyses are remembered on the term itself. Integer expressions (``int32`` / ``int64``)
are polynomials (:class:`Int`) over atoms and have their own normal form in :mod:`.integer`;
everything else is a :class:`Const`, :class:`Load`, :class:`Call` or :class:`Reduce`.

Integers are mathematical integers: index arithmetic is taken not to overflow, as TVM takes it.
A variable carries its own domain, so a simplification that uses a bound needs no context.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable
from typing import Any

_UID = itertools.count()
_TABLE: weakref.WeakValueDictionary[tuple[Any, ...], Term] = weakref.WeakValueDictionary()


class Term:
    """Base of all terms. ``memo`` holds what analyses remember about this term."""

    __slots__ = ("__weakref__", "dtype", "memo", "uid")
    uid: int
    dtype: str
    memo: dict[str, Any]

    def __repr__(self) -> str:
        from .show import show

        return show(self)


def _interned(cls: type[Term], key: tuple[Any, ...], dtype: str, **fields: Any) -> Any:
    full = (cls, *key)
    found = _TABLE.get(full)
    if found is None:
        found = cls.__new__(cls)
        found.uid = next(_UID)
        found.dtype = dtype
        found.memo = {}
        for name, value in fields.items():
            setattr(found, name, value)
        _TABLE[full] = found
    return found


class Tensor:
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
    """An integer polynomial: ``terms`` maps monomials (sorted tuples of atoms) to coefficients."""

    __slots__ = ("terms",)
    terms: tuple[tuple[tuple[Term, ...], int], ...]

    @property
    def const(self) -> int | None:
        """The value if this is a literal, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def atom(self) -> Term | None:
        """The atom if this is exactly one atom with coefficient one."""
        if len(self.terms) == 1:
            mono, coef = self.terms[0]
            if coef == 1 and len(mono) == 1:
                return mono[0]
        return None

    def __add__(self, other: Int | int) -> Int:
        return add(self, other if isinstance(other, Int) else integer(other))

    def __sub__(self, other: Int | int) -> Int:
        return sub(self, other if isinstance(other, Int) else integer(other))

    def __mul__(self, other: Int | int) -> Int:
        return mul(self, other) if isinstance(other, Int) else scale(self, other)

    def __neg__(self) -> Int:
        return scale(self, -1)

    __radd__ = __add__
    __rmul__ = __mul__


class Const(Term):
    """A literal that is not an index integer."""

    __slots__ = ("value",)
    value: Any


class Load(Term):
    """``tensor[indices]``."""

    __slots__ = ("indices", "tensor")
    tensor: Tensor
    indices: tuple[Int, ...]


class Call(Term):
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
    states: tuple[Call, ...]
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
    if len(kept) > 1:
        kept.sort(key=_mono_key)
    items = tuple(kept)
    found: Int = _interned(Int, (items,), "int", terms=items)
    return found


def integer(value: int) -> Int:
    found = _SMALL.get(value)
    if found is None:
        found = polynomial({(): value})
        if -64 <= value <= 4096:
            _SMALL[value] = found
    return found


def as_int(term: Term) -> Int:
    """An integer-valued term as a polynomial."""
    return term if isinstance(term, Int) else polynomial({(term,): 1})


def add(a: Int, b: Int) -> Int:
    if not a.terms:
        return b
    if not b.terms:
        return a
    out = dict(a.terms)
    for mono, coef in b.terms:
        out[mono] = out.get(mono, 0) + coef
    return polynomial(out)


def sub(a: Int, b: Int) -> Int:
    if not b.terms:
        return a
    out = dict(a.terms)
    for mono, coef in b.terms:
        out[mono] = out.get(mono, 0) - coef
    return polynomial(out)


def scale(a: Int, k: int) -> Int:
    return a if k == 1 else polynomial({m: c * k for m, c in a.terms})


def mul(a: Int, b: Int) -> Int:
    if (k := b.const) is not None:
        return scale(a, k)
    if (k := a.const) is not None:
        return scale(b, k)
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
    found: Var = _interned(Var, (kind, name, extent), "int", kind=kind, name=name, extent=extent)
    return found


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
    found: Const = _interned(Const, (repr(value), dtype), dtype, value=value)
    return found


def load(tensor: Tensor, indices: tuple[Int, ...]) -> Term:
    """The element; as an :class:`Int` where the tensor holds ``int32`` or ``int64``."""
    found: Load = _interned(Load, (tensor, indices), tensor.dtype, tensor=tensor, indices=indices)
    return as_int(found) if tensor.dtype in INT_DTYPES else found


def raw_call(op: str, args: tuple[Term, ...], dtype: str) -> Call:
    """A call node as it stands; callers outside the algebra want :func:`.scalar.call`."""
    found: Call = _interned(Call, (op, args, dtype), dtype, op=op, args=args)
    return found


def raw_reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Reduce:
    found: Reduce = _interned(
        Reduce, (op, axes, body, init), dtype, op=op, axes=axes, body=body, init=init
    )
    return found


def fold(
    axis: Var, states: tuple[Call, ...], inits: tuple[Term, ...], updates: tuple[Term, ...]
) -> Term:
    """The fold as it stands; as an :class:`Int` where its result is one. See :mod:`.fold`."""
    inits, updates = (
        tuple(as_int(t) if s.dtype in INT_DTYPES else t for s, t in zip(states, x, strict=True))
        for x in (inits, updates)
    )
    found: Fold = _interned(
        Fold,
        (axis, states, inits, updates),
        states[0].dtype,
        axis=axis,
        states=states,
        inits=inits,
        updates=updates,
    )
    return as_int(found) if found.dtype in INT_DTYPES else found


INT_DTYPES: frozenset[str] = frozenset({"int", "int32", "int64"})
#: Kinds of variables that are one number throughout a function.
SIZES = frozenset({"size", "scalar"})
ZERO = integer(0)
ONE = integer(1)
TRUE = const(True, "bool")
FALSE = const(False, "bool")
