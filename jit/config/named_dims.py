"""Resolve the names that users give to symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tvm import relax

from ..arguments.signature import Signature, variable_names
from ..dims.symbolic_dims import variables
from .strategy import Aot, Config, Strategy, strategy

T = TypeVar("T")


@dataclass(frozen=True)
class Resolved(Config):
    """A configuration whose dimensions are keyed by names of variables."""


def resolved(given: Config, mod: Any) -> Resolved:
    """Replace places like ``x:0`` in a configuration by names of variables.

    Places exist because an importer may rename variables, while arguments and axes stay.

    Raises:
        ValueError: A dimension is unknown, or its name is ambiguous.
    """
    if isinstance(given, Resolved):
        return given
    places = _places(mod)
    for name in _twice(mod):
        places.pop(name, None)
    dims = _renamed(given.dims, places)

    def own(s: Strategy | str) -> Strategy:
        found = strategy(s)
        if not isinstance(found, Aot):
            return found
        return replace(found, buckets=_renamed(found.buckets, places),
                       ranges=_renamed(found.ranges, places))  # fmt: skip

    return Resolved(own(given.default), {k: own(s) for k, s in given.by_function.items()},
                    {k: own(s) for k, s in given.by_op.items()}, dims, given.tuned)  # fmt: skip


def dimension_names(mod: Any) -> tuple[str, ...]:
    """Return the symbolic dimensions of a module's Relax functions."""
    return tuple(dict.fromkeys(_places(mod).values()))


def _places(mod: Any) -> dict[str, str]:
    """Map names, and places ``argument:axis`` where a variable stands alone, to names."""
    found: dict[str, str] = {}
    for func in mod.functions.values():
        if not isinstance(func, relax.Function):
            continue
        names = variable_names(func)
        for param in Signature.of(func).leaves():
            for axis, extent in enumerate(param.shape or ()):
                if isinstance(extent, str):
                    found[f"{param.name}:{axis}"] = found[extent] = extent
        for extent in (e for p in func.params for e in _extents(p.ty)):
            for v in variables(extent):
                found.setdefault(names.get(v, v.name), names.get(v, v.name))
    return found


def _twice(mod: Any) -> list[str]:
    """Return names shared by two variables of one function: only places identify these."""
    out: list[str] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            names = [str(v.name) for v in variable_names(func)]
            out += [n for n in dict.fromkeys(names) if names.count(n) > 1]
    return out


def _extents(t: Any) -> list[Any]:
    if isinstance(t, relax.TupleType):
        return [e for f in t.fields for e in _extents(f)]
    shape = t if isinstance(t, relax.ShapeType) else getattr(t, "shape", None)
    return list(getattr(shape, "values", None) or ())


def _renamed(given: Mapping[str, T], places: Mapping[str, str]) -> dict[str, T]:
    for name in given:
        if name not in places and name in places.values():
            known = ", ".join(where for where, n in places.items() if where != n)
            raise ValueError(f"several dimensions are named {name}: give the place instead, one "
                             f"of {known}")  # fmt: skip
        if name not in places:
            stand = {n: f"{n} ({where})" for where, n in places.items() if where != n}
            known = ", ".join(stand.get(n, n) for n in dict.fromkeys(places.values()))
            raise ValueError(
                f"unknown dimension {name}; the dimensions of the model: {known or 'none'}"
            )
    return {places[name]: value for name, value in given.items()}
