"""`opinfo.inspect`: analyse a PrimFunc or every PrimFunc of a module."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable
from functools import partial

import tvm
import tvm_ffi
from tvm import relax, tirx

from .analysis import Refusal
from .analysis.answer.recover import Recovered, analyse
from .analysis.certify.structural_equality import ByStructure
from .analysis.lifting.tir.node import items
from .analysis.proposal.legalise import lowered
from .report import Report, Row

Progress = Callable[[int, int, str], None]


class NotThere(KeyError):
    """A module has no PrimFunc of a name; the message names the nearest ones."""


def inspect(
    subject: tirx.PrimFunc | tvm.IRModule,
    progress: Progress | None = None,
    *,
    func: str | None = None,
    alternatives: bool = False,
) -> Report:
    """Say for each PrimFunc which operator it computes, or why that is not known.

    A module's Relax operators are legalised first, on a copy. PrimFuncs that are structurally equal
    are analysed once. `progress(done, total, name)` is called before each analysis and at the end;
    `func` restricts the report to one PrimFunc; `alternatives` certifies the other operators that
    compute the same too.

    Raises `TypeError` for anything but a PrimFunc or an IRModule, `KeyError` naming the nearest
    PrimFuncs if there is none called `func`.
    """
    if isinstance(subject, tirx.PrimFunc):
        symbol = str((subject.attrs or {}).get("global_symbol") or "PrimFunc")
        return _report({symbol: subject}, Counter({symbol: 1}), {}, progress, alternatives)
    if not isinstance(subject, tvm.IRModule):
        told = type(subject).__name__
        raise TypeError(f"inspect: expected a tvm.tirx.PrimFunc or tvm.IRModule, got {told}")
    mod = subject
    sites, others = call_sites(mod)
    if others:
        mod = legalize(subject)
        sites, others = call_sites(mod)
    prims = {gvar.name_hint: f for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    order = {name: place for place, name in enumerate(sites)}
    names = sorted(prims, key=lambda name: (order.get(name, len(order)), name))
    if func is not None:
        names, others = [_pick(func, names)], {}
    return _report({n: prims[n] for n in names}, sites, others, progress, alternatives)


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its Relax operators lowered to PrimFuncs; `mod` is not changed."""
    if not any(isinstance(f, relax.Function) for _, f in mod.functions_items()):
        return mod
    return lowered(mod)


def call_sites(mod: tvm.IRModule) -> tuple[Counter[str], dict[str, int]]:
    """Calls of each PrimFunc, and calls of operators that are still no PrimFunc, in order."""
    sites: Counter[str] = Counter()
    others: Counter[str] = Counter()

    def visit(node: tvm.ir.Call) -> None:
        op, args = node.op, node.args
        if not isinstance(op, tvm.ir.Op) or not op.name.startswith("relax."):
            return  # arithmetic on symbolic dimensions
        callee = args[0] if len(args) else None
        if isinstance(callee, tvm.ir.GlobalVar):
            sites[callee.name_hint] += 1
        else:
            others[_callee(node)] += 1

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (tvm.ir.Call, visit))
    return sites, dict(others)


def buffers(func: tirx.PrimFunc) -> tuple[str, ...]:
    """The parameters as text: `float32[1, 3, n, n]`, a scalar as its dtype."""
    return tuple(_type(param.ty) for param in items(func.params))


def _type(ty: tvm.ir.Type) -> str:
    shape = getattr(ty, "shape", None)
    dims = "" if shape is None else f"[{', '.join(map(_dim, items(shape)))}]"
    return f"{ty.dtype}{dims}"


def _dim(dim: object) -> str:
    return str(dim.value) if isinstance(dim, tirx.IntImm) else str(dim).replace("T.int64", "")


def _callee(call: tvm.ir.Call) -> str:
    first = call.args[0] if call.args else None
    symbol = getattr(first, "global_symbol", None)
    return f"{call.op.name}({symbol})" if symbol else str(call.op.name)


def _pick(name: str, names: list[str]) -> str:
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.3) or names[:3]
    raise NotThere(f"no PrimFunc is called '{name}'; there are {len(names)}, like {near}")


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
        if progress is not None:
            progress(done, len(prims), name)
        types = buffers(func)
        rows.append(Row(name, sites[name], result(func, types).of(func).info, types))
    if progress is not None:
        progress(len(prims), len(prims), "")
    return Report(tuple(rows), tuple(others.items()))


def _op_info(func: tirx.PrimFunc, alternatives: bool) -> Recovered:
    """The operator, over its own layouts if not over the PrimFunc's.

    An error of ours on one PrimFunc must not hide what is known of the others.
    """
    try:
        return analyse(func, alternatives=alternatives)
    except Exception as error:
        told = f"internal error, please report it: {type(error).__name__}: {error}"
        return Recovered(Refusal(told))
