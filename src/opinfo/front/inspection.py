"""`opinfo.inspect`: report the operator of each PrimFunc."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import tvm
from tvm import tirx

from ..analysis import Refusal
from ..analysis.answer.recover import analyse
from ..analysis.answer.recovered import Recovered
from ..analysis.certify.structural_equality import ByStructure
from ..analysis.support.garbage import rare_collections
from ..report.operators import Report, Row
from .models import as_module
from .prim_funcs import Progress, buffers, call_sites, legalize, pick, reported

if TYPE_CHECKING:
    from ..report.chains import ChainReport
    from ..report.libraries import LibraryReport


@overload
def inspect(
    subject: Any, progress: Progress | None = None, *, func: str | None = None,
    alternatives: bool = False, fused: Literal[False] = False,
) -> Report: ...  # fmt: skip
@overload
def inspect(
    subject: Any, progress: Progress | None = None, *, func: str | None = None,
    alternatives: bool = False, fused: bool,
) -> Report | ChainReport: ...  # fmt: skip
@rare_collections()
def inspect(
    subject: Any,
    progress: Progress | None = None,
    *,
    func: str | None = None,
    alternatives: bool = False,
    fused: bool = False,
) -> Report | ChainReport:
    """Report the operator of each PrimFunc, or why it is unknown.

    Relax operators are legalised first, in a copy. Structurally equal PrimFuncs are analysed once.

    Args:
        subject: A PrimFunc, a module, or the path of a model.
        progress: Called before each analysis and at the end, with the number of finished
            analyses, the total and a name.
        func: Report only this PrimFunc.
        alternatives: Also certify other operators that compute the same result.
        fused: Report the chain of operators of each PrimFunc after ``FuseOps`` and ``FuseTIR``.

    Returns:
        One row for each PrimFunc.

    Raises:
        FrontendError: The file cannot be read.
        TypeError: `subject` has the wrong type.
        KeyError: No PrimFunc is named `func`; the message lists similar names.
    """
    if isinstance(subject, tirx.PrimFunc):
        symbol = str((subject.attrs or {}).get("global_symbol") or "PrimFunc")
        subject = tvm.IRModule({symbol: subject})
        if not fused:
            return _report(_prims(subject), Counter({symbol: 1}), {}, progress, alternatives)
    mod = as_module(subject, "inspect", "a PrimFunc, ")
    if fused:
        from .fused import inspect_fused  # imports the slow jit package

        return inspect_fused(mod, progress, func=func)
    sites, others = call_sites(mod)
    if others:
        mod = legalize(mod)
        sites, others = call_sites(mod)
    prims = _prims(mod)
    order = {name: place for place, name in enumerate(sites)}
    names = sorted(prims, key=lambda name: (order.get(name, len(order)), name))
    if func is not None:
        names, others = [pick(func, names)], {}
    return _report({n: prims[n] for n in names}, sites, others, progress, alternatives)


def inspect_library(path: str | Path) -> LibraryReport:
    """Report how each function of an exported library is compiled, without running its code.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a library of `opinfo compile --shapes`.
    """
    from ..jit.runtime.library_table import read
    from ..report.libraries import LibraryReport

    return LibraryReport(read(Path(path)))


def _prims(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}


def _report(
    prims: dict[str, tirx.PrimFunc],
    sites: Counter[str],
    others: dict[str, int],
    progress: Progress | None,
    alternatives: bool,
) -> Report:
    rows = []
    result = ByStructure(partial(_op_info, alternatives=alternatives))
    for done, (name, func) in enumerate(prims.items()):
        reported(progress, done, len(prims), name)
        types = buffers(func)
        rows.append(Row(name, sites[name], result(func, types).of(func).info, types))
    reported(progress, len(prims), len(prims))
    return Report(tuple(rows), tuple(others.items()))


def _op_info(func: tirx.PrimFunc, alternatives: bool) -> Recovered:
    """Recover the operator of a PrimFunc.

    An internal error on one PrimFunc becomes a refusal, so that it does not hide the others.
    """
    try:
        return analyse(func, alternatives=alternatives)
    except Exception as error:
        reason = f"internal error, please report it: {type(error).__name__}: {error}"
        return Recovered(Refusal(reason))
