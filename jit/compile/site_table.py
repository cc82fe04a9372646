"""The table of call sites, with which a session serves a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from ...byoc.backend.backend import Code
from ..arguments.signature import Signature
from ..config.dim_values import values_at
from ..config.sites import CallSite
from ..config.strategy import Config, Jit, Record, Strategy
from ..runtime.library_table import FORMAT
from .call_site_code import NAMES, SiteCode, runtime, table
from .specialized_function import SpecializedFunction


def site_codes(
    mod: Any, called: list[CallSite], outcomes: Mapping[str, SpecializedFunction], settings: Config,
    target: Any,
) -> list[Code]:  # fmt: skip
    """Return the call sites in C++, with the description that the library embeds."""
    sites = [_site_entry(s, outcomes[s.function].strategy, settings) for s in called]
    functions = {s.function: tvm.ir.save_json(mod[s.function]) for s in called}
    ranges = {k: [d.low, d.high, d.multiple_of] for k, d in settings.dims.items()}
    _check_stores(mod)
    signatures = [Signature.of(f, n).to_json() for n, f in public_functions(mod).items()]
    about = json.dumps({"format": FORMAT, "target": str(target), "functions": functions,
                        "sites": sites, "ranges": ranges, "signatures": signatures,
                        "told": [t.row for t in outcomes.values()]})  # fmt: skip
    codes = [SiteCode(symbol(k), site.function,
                      tuple((d.param, -1 if d.axis is None else d.axis) for d in site.symbols))
             for k, site in enumerate(called)]  # fmt: skip
    whole, own = NAMES
    symbols = (own, *(c.symbol for c in codes))
    return [Code(runtime(), (whole,)), Code(table(codes, about), symbols)]


def _check_stores(mod: Any) -> None:
    """Refuse a function whose store to a cache was simplified away, because nothing reads it."""
    for name, func in public_functions(mod).items():
        stores: list[Any] = []
        tvm.relax.analysis.post_order_visit(func.body, lambda e, s=stores: s.append(
            getattr(getattr(e, "op", None), "name", "") == "relax.call_tir_inplace"))  # fmt: skip
        caches = Signature.of(func, name).caches
        if sum(stores) < len(caches):
            raise ValueError(f"{name}: {len(caches)} caches, and only {sum(stores)} stores to them "
                             "are left: no result depends on the others")  # fmt: skip


def public_functions(mod: Any) -> dict[str, Any]:
    """Return the Relax functions by the names under which a virtual machine exposes them."""
    out = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, relax.Function):
            name = (func.attrs or {}).get("global_symbol")
            if name is not None or gvar.name_hint == "main":
                out[str(name or "main")] = func
    return out


def _site_entry(site: CallSite, strategy: Strategy, settings: Config) -> dict[str, Any]:
    """Return what a session has to know of a call site."""
    likely = values_at(site, settings.dims) if isinstance(strategy, Jit) else ()
    eager = isinstance(strategy, Jit) and strategy.mode == "eager"
    return {
        "caller": site.caller,
        "function": site.function,
        "symbols": [s.name for s in site.symbols],
        "strategy": "record" if isinstance(strategy, Record) else "jit",
        "threshold": strategy.threshold if isinstance(strategy, Jit) else 0,
        "likely": list(likely) if eager else [],
    }


def symbol(place: int) -> str:
    """Return the symbol of the call site with this index."""
    return f"opinfo_site_{place}"
