"""Evaluate the dimensions of a call site for values of the Relax function's dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx

from .sites import CallSite
from .strategy import Dim


def values_at(
    site: CallSite, dims: Mapping[str, Dim], dim_values: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Return the site's dimensions for each combination of values; none if one is undeclared.

    ``dim_values`` maps variables of the Relax function to values; the default is the likely values.
    """
    free = site.free()
    candidates = (
        dim_values if dim_values is not None else {name: d.likely for name, d in dims.items()}
    )
    choices = [candidates.get(site.called(v), ()) for v in free]
    shapes = dict.fromkeys(
        at(site, dict(zip(free, values, strict=True))) for values in itertools.product(*choices)
    )
    return tuple(shapes)


def at(site: CallSite, values: Mapping[Any, int]) -> tuple[int, ...]:
    """Evaluate the site's dimensions for these values of the Relax function's variables."""
    analyzer = tvm.sym.Analyzer()
    for var, value in values.items():
        analyzer.bind(var, tirx.IntImm(var.ty.dtype, value))
    return tuple(int(e) if isinstance(e, int) else int(analyzer.simplify(e)) for e in site.dims)
