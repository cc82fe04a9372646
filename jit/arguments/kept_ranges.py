"""Ranges of parameters that index an axis, kept for a module in which they no longer show.

A lowered call does not say which of its operands index another one. The ranges are computed before,
and are an attribute of the functions afterwards, which `Signature.of` reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from .index_ranges import index_ranges_of
from .signature import INDICES, ranges_to_json, variable_names


def index_ranges_by_function(mod: tvm.IRModule) -> dict[str, str]:
    """Return the ranges of each function that has such parameters, as JSON.

    Args:
        mod: A module before it is lowered.
    """
    ranges = {gvar.name_hint: index_ranges_of(func, variable_names(func))
              for gvar, func in mod.functions_items()
              if isinstance(func, relax.Function)}  # fmt: skip
    return {name: json.dumps(ranges_to_json(found)) for name, found in ranges.items() if found}


def with_index_ranges(mod: tvm.IRModule, ranges: Mapping[str, str]) -> Any:
    """Return a module whose functions have these ranges; `mod` is not modified."""
    named = {gvar: func.with_attr(INDICES, ranges[gvar.name_hint])
             for gvar, func in mod.functions_items() if gvar.name_hint in ranges}  # fmt: skip
    if not named:
        return mod
    functions = {**dict(mod.functions_items()), **named}
    return tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
