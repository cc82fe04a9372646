"""PrimFuncs that are compiled apart from the others of a module, for a target of their own.

    Before: R.call cls.f(x, y), cls.g(y, z);  f and g PrimFuncs
    After:  R.call "f"(x, y), cls.g(y, z);    g a PrimFunc, f in a module that is linked with it

LLVM's level of optimisation is that of a whole module of code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ..codegen.checks.unchecked_arguments import PIPELINE

EXTERNAL = "external_mods"


def built_apart(mod: Any, names: Collection[str], target: Any) -> Any:
    """Return a lowered module without some PrimFuncs, and with their code; ``mod`` is not changed.

    PrimFuncs that are used otherwise than by calls of Relax functions stay, as do those that call
    others.

    Args:
        mod: A module just before code for the virtual machine is generated.
        names: The PrimFuncs.
        target: TVM's target of these PrimFuncs.
    """
    used = _used_otherwise(mod)
    apart = {gvar: func for gvar, func in mod.functions_items()
             if gvar.name_hint in names and gvar.name_hint not in used
             and not _mentioned(func)}  # fmt: skip
    if not apart:
        return mod
    symbols = {gvar.name_hint: str(func.attrs["global_symbol"]) for gvar, func in apart.items()}

    def call(node: Any, mutator: Any) -> Any:
        node = mutator.default_mutate(node)
        if not isinstance(node.op, tvm.ir.GlobalVar) or node.op.name_hint not in symbols:
            return node
        op = relax.ExternFunc(symbols[node.op.name_hint])
        new = relax.Call(op, node.args, node.attrs, node.ty_args, node.span)
        relax.expr._update_type(new, node.ty)
        return new

    rest = {gvar: tvm_ffi.structural_mutate(func, [(tvm.ir.Call, call)])
            if isinstance(func, relax.Function) else func
            for gvar, func in mod.functions_items() if gvar not in apart}  # fmt: skip
    attrs = dict(mod.attrs or {})
    code = tvm.tirx.build(tvm.IRModule(apart), target=target, pipeline=PIPELINE)
    attrs[EXTERNAL] = [*attrs.get(EXTERNAL, ()), code]
    return tvm.IRModule(rest, attrs=attrs, global_infos=mod.global_infos)


def _mentioned(func: Any) -> set[str]:
    """The names of functions in a function."""
    out: set[str] = set()
    tvm_ffi.structural_walk(func, (tvm.ir.GlobalVar, lambda gvar: out.add(gvar.name_hint)))
    return out


def _used_otherwise(mod: Any) -> set[str]:
    """The names of functions that PrimFuncs mention, and that Relax functions do but not call."""
    out: set[str] = set()
    for _, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            out |= _mentioned(func)
            continue
        uses: Counter[str] = Counter()

        def use(gvar: Any, uses: Counter[str] = uses) -> None:
            uses[gvar.name_hint] += 1

        def call(node: Any, uses: Counter[str] = uses) -> None:
            if isinstance(node.op, tvm.ir.GlobalVar):
                uses[node.op.name_hint] -= 1

        tvm_ffi.structural_walk(func, [(tvm.ir.GlobalVar, use), (tvm.ir.Call, call)])
        out.update(name for name, count in uses.items() if count)
    return out
