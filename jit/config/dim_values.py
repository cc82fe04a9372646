"""What the dimensions of a call site are, for values of the dimensions of the Relax function."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx

from .sites import CallSite
from .strategy import Dim


def values_at(
    site: CallSite, dims: Mapping[str, Dim], of: Mapping[str, tuple[int, ...]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """The site's dimensions for each combination of values; none where one is not declared.

    ``of`` are the values by the name of the Relax function's variable, by default the likely ones.
    """
    free = site.free()
    given = of if of is not None else {name: d.likely for name, d in dims.items()}
    choices = [given.get(site.called(v), ()) for v in free]
    found = dict.fromkeys(at(site, dict(zip(free, values, strict=True)))
                          for values in itertools.product(*choices))  # fmt: skip
    return tuple(found)


def at(site: CallSite, values: Mapping[Any, int]) -> tuple[int, ...]:
    """The site's dimensions where the Relax function's variables have these values."""
    analyzer = tvm.sym.Analyzer()
    for v, value in values.items():
        analyzer.bind(v, tirx.IntImm(v.ty.dtype, value))
    return tuple(int(e) if isinstance(e, int) else int(analyzer.simplify(e)) for e in site.dims)
