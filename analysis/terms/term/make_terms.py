"""Make interned terms: variables, literals, loads, calls and reductions."""

from __future__ import annotations

from typing import Any

from .interning import UID, intern_new, interned
from .nodes import ONE, ZERO, CallTerm, Const, Fold, Int, Load, Reduce, TensorVar, Term, Var, as_int

INT_DTYPES: frozenset[str] = frozenset({"int", "int32", "int64"})
#: Kinds of variables that have one value throughout a function.
SIZES = frozenset({"size", "scalar"})


def var(kind: str, name: str, extent: Int | None = None) -> Int:
    """Return the variable as an integer; a variable of extent 1 is 0."""
    return ZERO if extent is ONE else as_int(variable(kind, name, extent))


def variable(kind: str, name: str, extent: Int | None = None, dtype: str = "int") -> Var:
    """Return the variable of a kind and a name; equal arguments give the same object."""
    key = (Var, kind, name, extent, dtype)
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(Var, key, dtype, ())
        cached.kind, cached.name, cached.extent = kind, name, extent
    return cached  # type: ignore[no-any-return]


def fresh(extent: Int, stem: str = "i") -> Var:
    """Return a new loop variable."""
    return variable("loop", f"{stem}{next(UID)}", extent)


def axis(position: int, extent: Int) -> Int:
    """Return the ``position``-th coordinate of a buffer: the same term for equal extents."""
    return var("axis", f"y{position}", extent)


def size(name: str) -> Int:
    """Return a symbolic extent, which is at least 1."""
    return as_int(variable("size", name))


def const(value: Any, dtype: str) -> Const:
    """Return a literal of a dtype; equal arguments give the same object."""
    key = (Const, repr(value), dtype)
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(Const, key, dtype, ())
        cached.value = value
    return cached  # type: ignore[no-any-return]


def load(tensor: TensorVar, indices: tuple[Int, ...]) -> Term:
    """Return the element, as an `Int` if the tensor holds ``int32`` or ``int64``."""
    key = (Load, tensor, indices)
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(Load, key, tensor.dtype, indices)
        cached.tensor, cached.indices = tensor, indices
        cached.reads |= {tensor}
    return as_int(cached) if tensor.dtype in INT_DTYPES else cached


def raw_call(op: str, args: tuple[Term, ...], dtype: str) -> CallTerm:
    """Return a call node without simplification; use `call` outside the algebra."""
    key = (CallTerm, op, args, dtype)
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(CallTerm, key, dtype, args)
        cached.op, cached.args = op, args
    return cached  # type: ignore[no-any-return]


def raw_reduce(op: str, axes: tuple[Var, ...], body: Term, init: Term, dtype: str) -> Reduce:
    """Return a reduction as written; equal arguments give the same object."""
    key = (Reduce, op, axes, body, init)
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(Reduce, key, dtype, (body, init))
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
    cached: Any = interned(key)
    if cached is None:
        cached = intern_new(Fold, key, states[0].dtype, (*updates, *inits))
        cached.axis, cached.states, cached.inits, cached.updates = axis, states, inits, updates
    return as_int(cached) if cached.dtype in INT_DTYPES else cached


#: The number of iterations of a ``while`` loop: as many as change the state.
FOREVER = as_int(raw_call("forever", (), "int"))
TRUE = const(True, "bool")
FALSE = const(False, "bool")
