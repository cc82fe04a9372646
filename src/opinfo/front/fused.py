"""`opinfo.inspect(fused=True)`: the operators of every PrimFunc after fusion."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from ..analysis.chain import Chains
from ..jit import specialize_shapes
from ..jit.dims.symbolic_dims import static
from ..report.chains import ChainReport, ChainRow
from .prim_funcs import NotThere, Progress, call_sites, legalize, reported


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module fused by TVM's usual pipeline; `mod` is not modified."""
    passes = [
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    return tvm.transform.Sequential(passes)(legalize(mod))


def inspect_fused(
    mod: tvm.IRModule, progress: Progress | None = None, *, func: str | None = None
) -> ChainReport:
    """Report the operators of each PrimFunc of the fused module.

    Raises:
        KeyError: No PrimFunc is named `func` after fusion.
    """
    fused = fuse(mod)
    sites, _ = call_sites(fused)
    prims = {g.name_hint: f for g, f in fused.functions_items() if isinstance(f, tirx.PrimFunc)}
    if func is not None and func not in prims:
        raise NotThere(f"no PrimFunc is named '{func}' after fusion")
    names = [func] if func is not None else [n for n in (*sites, *prims) if n in prims]
    strategies = _strategies(fused) if not all(map(static, prims.values())) else {}
    rows, chains = [], Chains()
    for done, name in enumerate(dict.fromkeys(names)):
        reported(progress, done, len(prims), name)
        rows.append(ChainRow(name, sites[name], chains.of(prims[name]), strategies.get(name, "")))
    return ChainReport(tuple(rows))


def _strategies(fused: tvm.IRModule) -> dict[str, str]:
    """Return the strategy, schedule and limits of each function with symbolic shapes."""
    told = {}
    for function, strategy, rule, why in (t.row for t in specialize_shapes(fused).functions):
        if not static(fused[function]):
            told[function] = f"{strategy}, {rule}" + (f": {why}" if why else "")
    return told
