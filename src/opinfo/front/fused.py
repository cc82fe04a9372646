"""`opinfo.inspect(fused=True)`: the operators of every PrimFunc after fusion."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax, tirx

from ..analysis.chain import Chains
from ..analysis.lifting.tir.int64_extents import int64_extents
from ..frontend.checks.error import one_line
from ..report.chains import ChainReport, ChainRow
from .prim_funcs import LegalizeError, Progress, UnknownPrimFunc, call_sites, legalize, reported


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module fused by TVM's usual pipeline; `mod` is not modified.

    Raises:
        LegalizeError: TVM cannot legalise or fuse it.
    """
    passes = [
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    legalized = int64_extents(legalize(mod))
    try:
        return tvm.transform.Sequential(passes)(legalized)
    except Exception as error:  # TVM's fusion may raise anything
        raise LegalizeError(f"TVM cannot fuse the model: {one_line(error)}") from error


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
        raise UnknownPrimFunc(f"no PrimFunc is named '{func}' after fusion")
    names = [func] if func is not None else [n for n in (*sites, *prims) if n in prims]
    strategies = _strategies(fused, prims)
    rows, chains = [], Chains()
    for done, name in enumerate(dict.fromkeys(names)):
        reported(progress, done, len(prims), name)
        rows.append(ChainRow(name, sites[name], chains.of(prims[name]), strategies.get(name, "")))
    return ChainReport(tuple(rows))


def _strategies(fused: tvm.IRModule, prims: Mapping[str, tirx.PrimFunc]) -> dict[str, str]:
    """Return the strategy, schedule rule and reason for each function with symbolic shapes."""
    try:  # kernels need a newer TVM than the analysis does
        from ..byoc.dims.symbolic_dims import static
        from ..jit import specialize_shapes
    except ImportError as error:
        if error.name != "tvm":
            raise
        return dict.fromkeys(prims, f"unknown: {error}")
    symbolic = {name for name, func in prims.items() if not static(func)}
    if not symbolic:
        return {}
    rows = (f.row for f in specialize_shapes(fused).functions)
    return {
        function: f"{strategy}, {rule}" + (f": {why}" if why else "")
        for function, strategy, rule, why in rows
        if function in symbolic
    }
