"""The operators of every PrimFunc after fusion."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from ..analysis.chain import Chains
from ..jit import specialize_shapes
from ..jit.dims.symbolic_dims import static
from ..report.chains import ChainReport, ChainRow
from .prim_funcs import NotThere, Progress, call_sites, legalize, reported


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """The module as the usual pipeline fuses it; `mod` is not changed."""
    passes = [
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    return tvm.transform.Sequential(passes)(legalize(mod))


def inspect_fused(
    mod: tvm.IRModule, progress: Progress | None = None, *, func: str | None = None
) -> ChainReport:
    """Say for each PrimFunc of the fused module which operators it computes.

    Raises `KeyError` if there is no PrimFunc called `func` after fusion.
    """
    fused = fuse(mod)
    sites, _ = call_sites(fused)
    prims = {g.name_hint: f for g, f in fused.functions_items() if isinstance(f, tirx.PrimFunc)}
    if func is not None and func not in prims:
        raise NotThere(f"no PrimFunc is called '{func}' after fusion")
    names = [func] if func is not None else [n for n in (*sites, *prims) if n in prims]
    strategies = _strategies(fused) if not all(map(static, prims.values())) else {}
    rows, chains = [], Chains()
    for done, name in enumerate(dict.fromkeys(names)):
        reported(progress, done, len(prims), name)
        rows.append(ChainRow(name, sites[name], chains.of(prims[name]), strategies.get(name, "")))
    return ChainReport(tuple(rows))


def _strategies(fused: tvm.IRModule) -> dict[str, str]:
    """Of each function with symbolic shapes its strategy and schedule, and why not more."""
    told = {}
    for function, strategy, rule, why in (t.row for t in specialize_shapes(fused).functions):
        if not static(fused[function]):
            told[function] = f"{strategy}, {rule}" + (f": {why}" if why else "")
    return told
