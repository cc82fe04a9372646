"""The calls by which builds with symbolic sizes are compared: a step and a prompt, or two sizes.

A function that returns a parameter with new rows, or stores rows in one, has a cache. Its calls are

- a step: one new row, `PAST` rows before it;
- a prompt: `PROMPT` new rows, none before them.

All other sizes are 1 then. A function without caches is called with all sizes `SOME`, and with
the first size 1 and the others `MANY`; with one size only, with 1 and `MANY`. Declared ranges and
likely values move a size to the nearest one that they allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax

from ..jit.arguments.extent import Extent, value
from ..jit.arguments.signature import Signature, extents_of, variable_names
from ..jit.caches.find_caches import returned_caches
from ..jit.config.strategy import Dim

Sizes = dict[str, int]
PAST, PROMPT, SOME, MANY = 128, 64, 16, 64
#: The rows for which a cache has room: those of a step, and of a prompt.
ROOM = 256


@dataclass(frozen=True)
class ComparedModule:
    """A module to compare builds of.

    Attributes:
        mod: The module.
        dims: Declared dimensions, by the names of symbolic variables.
    """

    mod: Any
    dims: Mapping[str, Dim] = field(default_factory=dict)


@dataclass(frozen=True)
class SizedCall:
    """A call of a function, by the values of its symbolic sizes."""

    function: str
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        values = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return f"{self.function}({values})" if self.function != "main" else values


@dataclass(frozen=True)
class _Cached:
    """The sizes of a function that has caches: new rows, rows before, room, and first rows."""

    new: frozenset[Extent]
    past: frozenset[Extent]
    room: frozenset[Extent]
    first: frozenset[Extent]


def sized_calls(subject: ComparedModule) -> tuple[SizedCall, ...]:
    """Return the calls to compare, of all functions that are exported.

    A call is left out if a condition of its function excludes it, or if the shape of a parameter
    does not follow from its sizes.
    """
    out = []
    for gvar, func in subject.mod.functions_items():
        if isinstance(func, relax.Function) and "global_symbol" in (func.attrs or {}):
            signature = Signature.of(func, gvar.name_hint)
            names = list(variable_names(func).values())
            for sizes in _sizes(names, _cached(func, signature) if names else None):
                allowed = _allowed(sizes, subject.dims)
                call = SizedCall(gvar.name_hint, allowed)
                met = all(value(c, allowed) != 0 for c in signature.conditions)
                if met and _follows(signature, allowed) and call not in out:
                    out.append(call)
    return tuple(out)


def _follows(signature: Signature, sizes: Sizes) -> bool:
    """Return whether the shapes of all parameters follow from some sizes."""
    extents = [value(e, sizes) for p in signature.leaves() for e in p.shape or ()]
    return all(e is not None and e >= 0 for e in extents)


def _sizes(names: Sequence[str], cached: _Cached | None) -> list[Sizes]:
    """Return values of the sizes with these names."""
    if not names:
        return [{}]
    if cached is None and len(names) == 1:
        return [{names[0]: 1}, {names[0]: MANY}]
    if cached is None:
        return [dict.fromkeys(names, SOME), {**dict.fromkeys(names, MANY), names[0]: 1}]
    return [{name: _size(name, cached, *of) for name in names} for of in ((1, PAST), (PROMPT, 0))]


def _size(name: str, cached: _Cached, new: int, past: int) -> int:
    """Return the value of a size where a call has so many new rows, and so many before them."""
    for names, size in ((cached.new, new), (cached.past, past), (cached.room, ROOM),
                        (cached.first, 0)):  # fmt: skip
        if name in names:
            return size
    return 1


def _cached(func: Any, signature: Signature) -> _Cached | None:
    """Return the sizes of a function's caches; None if it has none."""
    if signature.caches:
        caches, groups, at = signature.caches, signature.groups, signature.length
        shapes = [_field(signature, c.param, c.field) for c in caches]
        room = {shape[c.axis] for c, shape in zip(caches, shapes, strict=True) if c.group >= 0}
        lengths = () if at is None else signature.params[at].shape or ()
        first = {lengths[g.at + 1] for g in groups if g.slides}
        return _Cached(frozenset(c.count for c in caches), frozenset(g.length for g in groups),
                       frozenset(room), frozenset(first))  # fmt: skip
    found = returned_caches(func) if isinstance(func.body, relax.SeqExpr) else ()
    if not found:
        return None
    new = [c.new.ty.shape[0 if c.length is None else c.axis] for c in found]
    past = [c.length for c in found if c.length is not None]
    return _Cached(frozenset(map(_plain, extents_of(func, new))),
                   frozenset(map(_plain, extents_of(func, past))),
                   frozenset(), frozenset())  # fmt: skip


def _plain(extent: Any) -> Extent:
    """Return an extent that is a number or a name; None for an expression."""
    return extent if isinstance(extent, int | str) else None


def _field(signature: Signature, param: int, field: int) -> Sequence[Extent]:
    """Return the shape of a parameter or of one of its fields."""
    of = signature.params[param]
    return (of if field < 0 else of.fields[field]).shape or ()


def _allowed(sizes: Sizes, dims: Mapping[str, Dim]) -> Sizes:
    """Return the sizes that are nearest to these where dimensions are declared."""
    return {n: _nearest(size, dims[n]) if n in dims else size for n, size in sizes.items()}


def _nearest(size: int, dim: Dim) -> int:
    """Return the likely value that is nearest, else the nearest value of the range."""
    if dim.likely:
        return min(dim.likely, key=lambda value: abs(value - size))
    last, first, step = dim.last(), dim.first(), dim.multiple_of
    rounded = max(first, -(-size // step) * step)
    return rounded if last is None else min(rounded, last)
