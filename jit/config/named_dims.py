"""Resolve the names that users give to symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tvm import relax

from ...analysis.support.wording import did_you_mean
from ...byoc.dims.symbolic_dims import variables
from ..arguments.signature import Signature, variable_names
from .strategy import Aot, Config, Strategy, strategy

T = TypeVar("T")


@dataclass(frozen=True)
class Resolved(Config):
    """A configuration whose dimensions are keyed by names of variables."""


def resolved(config: Config, mod: Any) -> Resolved:
    """Replace places like ``x:0`` in a configuration by names of variables.

    Places exist because an importer may rename variables, while arguments and axes stay.

    Raises:
        ValueError: A dimension is unknown, or its name is ambiguous.
    """
    if isinstance(config, Resolved):
        return config
    places = _places(mod)
    for name in _ambiguous_names(mod):
        places.pop(name, None)
    dims = _renamed(config.dims, places)

    def translated(value: Strategy | str) -> Strategy:
        chosen = strategy(value)
        if not isinstance(chosen, Aot):
            return chosen
        return replace(chosen, buckets=_renamed(chosen.buckets, places),
                       ranges=_renamed(chosen.ranges, places))  # fmt: skip

    return Resolved(
        translated(config.default),
        {k: translated(s) for k, s in config.by_function.items()},
        {k: translated(s) for k, s in config.by_op.items()},
        dims,
        config.tuned,
    )


def dimension_names(mod: Any) -> tuple[str, ...]:
    """Return the symbolic dimensions of a module's Relax functions."""
    return tuple(dict.fromkeys(_places(mod).values()))


def first_places(mod: Any) -> dict[str, str]:
    """Return where each symbolic dimension first stands alone, such as ``{"s27": "x:0"}``.

    An importer may have made up the names, as for programs of torch.
    """
    return {name: place for place, name in reversed(_places(mod).items()) if place != name}


def _places(mod: Any) -> dict[str, str]:
    """Map names, and places ``argument:axis`` where a variable stands alone, to names."""
    places: dict[str, str] = {}
    for func in mod.functions.values():
        if not isinstance(func, relax.Function):
            continue
        names = variable_names(func)
        for param in Signature.of(func).leaves():
            for axis, extent in enumerate(param.shape or ()):
                if isinstance(extent, str):
                    places[f"{param.name}:{axis}"] = places[extent] = extent
        for extent in (e for p in func.params for e in _extents(p.ty)):
            for var in variables(extent):
                places.setdefault(names.get(var, var.name), names.get(var, var.name))
    return places


def _ambiguous_names(mod: Any) -> list[str]:
    """Return names shared by two variables of one function: only places identify these."""
    out: list[str] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            names = [str(v.name) for v in variable_names(func)]
            out += [n for n in dict.fromkeys(names) if names.count(n) > 1]
    return out


def _extents(ty: Any) -> list[Any]:
    if isinstance(ty, relax.TupleType):
        return [e for f in ty.fields for e in _extents(f)]
    shape = ty if isinstance(ty, relax.ShapeType) else getattr(ty, "shape", None)
    return list(getattr(shape, "values", None) or ())


def _renamed(settings: Mapping[str, T], places: Mapping[str, str]) -> dict[str, T]:
    for name in settings:
        if name not in places and name in places.values():
            listing = ", ".join(where for where, n in places.items() if where != n)
            raise ValueError(f"several dimensions are named {name}: give the place instead, one "
                             f"of {listing}")  # fmt: skip
        if name not in places:
            stand = {n: f"{n} ({where})" for where, n in places.items() if where != n}
            listing = ", ".join(stand.get(n, n) for n in dict.fromkeys(places.values()))
            raise ValueError(
                f"unknown dimension {name}; the dimensions of the model: {listing or 'none'}"
                f"{did_you_mean(name, stand)}"
            )
    return {places[name]: value for name, value in settings.items()}
