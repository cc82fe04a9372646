"""Legalise a module, and find the calls and buffers of its PrimFuncs."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax, tirx

from ..analysis.lifting.tir.node import items
from ..analysis.proposal.legalise import legalise_module
from ..analysis.support.progress import stage
from ..frontend.checks.error import one_line

Progress = Callable[[int, int, str], None]


class LegalizeError(ValueError):
    """TVM cannot lower a model's operators, or fuse the PrimFuncs; the message says why."""


class UnknownPrimFunc(KeyError):
    """A module has no PrimFunc with a name; the message lists similar names."""

    def __str__(self) -> str:
        return str(self.args[0])


def reported(progress: Progress | None, done: int, total: int, name: str = "") -> None:
    """Report the number of analysed PrimFuncs as progress."""
    stage(f"analysing {name}".rstrip(), done, total)
    if progress is not None:
        progress(done, total, name)


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """Lower the Relax operators of a module to PrimFuncs; `mod` is not modified.

    Raises:
        LegalizeError: TVM cannot legalise an operator.
    """
    if not any(isinstance(f, relax.Function) for _, f in mod.functions_items()):
        return mod
    stage("legalising")
    try:
        return legalise_module(mod)
    except Exception as error:  # TVM's legalisation may raise anything
        raise LegalizeError(f"TVM cannot legalise the model: {one_line(error)}") from error


def call_sites(mod: tvm.IRModule) -> tuple[Counter[str], dict[str, int]]:
    """Count the calls of each PrimFunc, and of operators that are not lowered, in order."""
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
    """Format the types of the parameters: `float32[1, 3, n, n]`, or the dtype of a scalar."""
    return tuple(_type(param.ty) for param in items(func.params))


def pick(name: str, names: Sequence[str]) -> str:
    """Return the name; raises `UnknownPrimFunc` with similar names if it is unknown."""
    if name in names:
        return name
    similar = difflib.get_close_matches(name, names, n=3, cutoff=0.3) or list(names[:3])
    raise UnknownPrimFunc(
        f"no PrimFunc is named '{name}'; the module has {len(names)}, such as {', '.join(similar)}"
    )


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
