"""The symbolic dimensions of a module by the names that users have for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tvm import relax, tirx

from .dims import variables
from .signature import Signature
from .strategy import Aot, Config, Strategy, strategy

T = TypeVar("T")


def resolved(given: Config, mod: Any) -> Config:
    """A configuration by the names of variables, where it has places like ``x:0``.

    An importer may rename variables; the argument and the axis stay. Raises ``ValueError`` for a
    dimension that no function has, with those there are.
    """
    places = _places(mod)
    dims = _renamed(given.dims, places)

    def own(s: Strategy | str) -> Strategy:
        found = strategy(s)
        if not isinstance(found, Aot):
            return found
        return replace(found, buckets=_renamed(found.buckets, places),
                       ranges=_renamed(found.ranges, places))  # fmt: skip

    return replace(given, default=own(given.default), dims=dims,
                   by_function={k: own(s) for k, s in given.by_function.items()},
                   by_op={k: own(s) for k, s in given.by_op.items()})  # fmt: skip


def _places(mod: Any) -> dict[str, str]:
    """Variables by their own names and by ``argument:axis``, where they stand alone."""
    found: dict[str, str] = {}
    for func in mod.functions.values():
        if not isinstance(func, relax.Function):
            continue
        for p in Signature.of(func).params:
            for axis, extent in enumerate(p.shape or ()):
                if isinstance(extent, str):
                    found[f"{p.name}:{axis}"] = found[extent] = extent
        for p in func.params:
            shape = p.ty.values if isinstance(p.ty, relax.ShapeType) else _shape(p.ty)
            for axis, extent in enumerate(shape or ()):
                if isinstance(p.ty, relax.ShapeType) and isinstance(extent, tirx.Var):
                    found[f"{p.name}:{axis}"] = extent.name
                for v in variables(extent):
                    found.setdefault(v.name, v.name)
    return found


def _shape(t: Any) -> Any:
    shape = getattr(t, "shape", None)
    return shape.values if isinstance(shape, relax.ShapeExpr) else None


def _renamed(given: Mapping[str, T], places: Mapping[str, str]) -> dict[str, T]:
    for name in given:
        if name not in places:
            stand = {n: f"{n} ({where})" for where, n in places.items() if where != n}
            known = ", ".join(stand.get(n, n) for n in dict.fromkeys(places.values()))
            raise ValueError(f"there is no dimension {name}; those of the model: {known or 'none'}")
    return {places[name]: value for name, value in given.items()}
