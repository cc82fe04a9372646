"""Call sites: the calls of PrimFuncs with symbolic shapes in a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import relax, tirx

from ...analysis.support.ir.call_ops import is_call_tir
from ...byoc.dims.symbolic_dims import Symbol, Unbound, symbols, variables
from ..arguments.signature import Signature, variable_names

#: Maximum number of dimensions in a key of the C++ cache.
MOST = 8


@dataclass(frozen=True)
class CallSite:
    """One ``call_tir`` of a symbolic PrimFunc.

    ``dims`` are the values of the PrimFunc's symbols at this call, as expressions over variables of
    the Relax function. ``why_not`` says why the call cannot be specialised; None if it can.
    """

    caller: str
    function: str
    symbols: tuple[Symbol, ...]
    dims: tuple[Any, ...]
    why_not: str | None = None
    call: Any = field(default=None, compare=False, repr=False)
    #: Unique names of the Relax function's variables: two variables may both be named ``n``.
    names: Mapping[Any, str] = field(default_factory=dict, compare=False, repr=False)
    #: Whether sizes depend on the length or room of the caller's caches.
    grows: bool = False

    def called(self, var: Any) -> str:
        """Return the name of a variable of the Relax function."""
        return self.names.get(var, str(var.name))

    def free(self) -> list[Any]:
        """Return the variables of the Relax function that occur in the dimensions."""
        free_vars: list[Any] = []
        for expr in self.dims:
            free_vars += [v for v in variables(expr) if not any(v.same_as(f) for f in free_vars)]
        return free_vars


def call_sites(mod: Any) -> tuple[CallSite, ...]:
    """Return the calls of PrimFuncs with symbolic shapes, in program order."""
    sites: list[CallSite] = []
    symbols_of = {g: _symbols(f) for g, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    for gvar, func in mod.functions.items():
        if not isinstance(func, relax.Function):
            continue

        names, changing = variable_names(func), _changing(func)

        def visit(
            node: Any,
            caller: str = gvar.name_hint,
            names: Mapping[Any, str] = names,
            changing: Sequence[Any] = changing,
        ) -> None:
            if is_call_tir(node) and symbols_of[node.args[0]]:
                site = _site(node, caller, symbols_of[node.args[0]])
                grows = any(v.same_as(c) for v in site.free() for c in changing)
                sites.append(replace(site, call=node, names=names, grows=grows))

        relax.analysis.post_order_visit(func, visit)
    return tuple(sites)


def _changing(caller: Any) -> list[Any]:
    """Return the lengths and the rooms of a function's caches."""
    signature = Signature.of(caller)
    if signature.length is None:
        return []
    changing = [v for v in caller.params[signature.length].ty.values if isinstance(v, tirx.Var)]
    for cache in signature.caches:
        if cache.group < 0:
            continue
        ty = caller.params[cache.param].ty
        ty = ty if cache.field < 0 else ty.fields[cache.field]
        changing.append(ty.shape[cache.axis])
    return changing


def _symbols(func: Any) -> tuple[Symbol, ...] | str:
    try:
        return symbols(func)
    except Unbound as error:
        return str(error)


def _site(call: Any, caller: str, func_symbols: tuple[Symbol, ...] | str) -> CallSite:
    name = call.args[0].name_hint
    if isinstance(func_symbols, str):
        return CallSite(caller, name, (), (), func_symbols)
    if len(func_symbols) > MOST:
        return CallSite(
            caller,
            name,
            func_symbols,
            (),
            f"it has {len(func_symbols)} symbolic dimensions, expected at most {MOST}",
        )
    if len(call.args) > 2:
        return CallSite(
            caller, name, func_symbols, (), "the call passes a shape in addition to its arguments"
        )
    dims, types, fields = [], _types(call), call.args[1].fields
    for symbol in func_symbols:
        if symbol.axis is None:
            if symbol.param >= len(fields):
                return CallSite(
                    caller, name, func_symbols, (), f"{symbol.name} is not an argument of the call"
                )
            dims.append(fields[symbol.param])
            continue
        shape = getattr(types[symbol.param], "shape", None)
        if shape is None:
            return CallSite(
                caller, name, func_symbols, (), f"argument {symbol.param} has no known shape"
            )
        dims.append(shape[symbol.axis])
    return CallSite(caller, name, func_symbols, tuple(dims))


def _types(call: Any) -> list[Any]:
    """Return the types of all arguments: operands, then results."""
    return [x.ty for x in call.args[1].fields] + results(call)


def results(call: Any) -> list[Any]:
    """Return the types of the results of a ``call_tir``."""
    (result_type,) = call.ty_args
    return list(result_type.fields) if isinstance(result_type, relax.TupleType) else [result_type]
