"""Run functions as one CUDA graph each, arguments and results included.

Before: s = alloc_storage(…);  t = alloc_tensor(s, …);  k0(x, t)
        r = alloc_tensor(…);  k1(t, r);  r
After:  all = get_cached_alloc(…);  r = alloc_tensor(…)
        opinfo_graph_run(all[0], number, main_graph, written, inputs, results, x, r, all[1]);  r
        main_graph(x, r, s): t = alloc_tensor(s, …);  k0(x, t);  k1(t, r)

`one_graph.hpp` has the function, which captures `main_graph`. It follows StaticPlanBlockMemory,
and takes the place of RewriteCUDAGraph for the functions that it takes, which are those with static
shapes, or with shapes that graphs are captured for, and nothing but kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.rewrite_functions import with_attrs
from .storages import Storage, merged
from .whole_call import WholeCall, whole_call

#: The functions of `one_graph.hpp`.
RUN, STATE = "opinfo_graph_run", "opinfo_graph_state"
#: TVM's function that calls another one once, and keeps what that returns.
CACHED = "vm.builtin.cuda_graph.get_cached_alloc"
#: The number of the cached allocation; TVM's own is 0.
ALLOCATION = 4093


def with_whole_calls(mod: Any, kernels: Collection[str]) -> Any:
    """Return the module with functions that are one graph; TVM captures what it can of others.

    Args:
        mod: A module with planned memory; it is not changed.
        kernels: External functions that only launch kernels, whose last argument is the result.
    """
    calls: NodeDict[WholeCall] = NodeDict()
    functions = [(g, f) for g, f in mod.functions_items() if isinstance(f, relax.Function)]
    inner = {g.name_hint for _, f in functions for g in relax.analysis.all_global_vars(f)}
    for gvar, func in functions:
        call = whole_call(mod, func, kernels)
        if isinstance(call, WholeCall) and gvar.name_hint not in inner:
            calls[gvar] = call
    others = {g: f for g, f in mod.functions_items() if g not in calls}
    out = relax.transform.RewriteCUDAGraph()(with_attrs(tvm.IRModule(others), mod))
    if not calls.items():
        return out
    plans = [call.storages for call in calls.values()]
    shared, places = merged(plans)
    callers: NodeDict[Any] = NodeDict()
    builder = relax.BlockBuilder(out)
    allocation = builder.add_func(_allocation(shared), "opinfo_graph_allocation")
    for number, (gvar, call) in enumerate(calls.items()):
        body = builder.add_func(_body(call), f"{gvar.name_hint}_graph")
        source = _Source(allocation, body, number, places[number])
        callers[gvar] = _caller(call, source)
    out = with_attrs(builder.get(), mod)
    for gvar, func in callers.items():
        out.update_func(gvar, func)
    return out


@dataclass(frozen=True)
class _Source:
    """What a function that launches its graph needs; ``places`` are those of its storages."""

    allocation: Any
    body: Any
    number: int
    places: Sequence[int]


def _allocation(storages: Sequence[Storage]) -> Any:
    """A function that returns the object with the graphs, and memory."""
    builder = relax.BlockBuilder()
    with builder.function("main", [], attrs={"relax.force_pure": True}, private=True):
        state = builder.emit(relax.Call(relax.ExternFunc(STATE), [], ty_args=[relax.AnyType()]))
        values = [state, *(builder.emit(s.call) for s in storages)]
        builder.emit_func_output(builder.emit(relax.Tuple(values)))
    return builder.get()["main"]


def _body(call: WholeCall) -> Any:
    """The function that is captured; it returns a tensor, as a machine returns no empty tuple."""
    arguments = [*call.params, *call.results, *(s.var for s in call.storages)]
    tuples = [relax.VarBinding(p, relax.Tuple(list(fields))) for p, fields in call.tuples]
    body = relax.SeqExpr([relax.BindingBlock([*tuples, *call.inside])], arguments[0])
    func = relax.Function(arguments, body, arguments[0].ty)
    return relax.utils.copy_with_new_vars(func.with_attr("relax.force_pure", True))


def _caller(call: WholeCall, source: _Source) -> Any:
    """The function itself: it allocates results, and launches the graph."""
    returned = source.allocation.ty.ret
    allocated = relax.Var("allocated", returned)
    cached = [source.allocation, _number(ALLOCATION)]
    first = [relax.VarBinding(allocated, _with_context(CACHED, cached, returned))]
    taken: list[Any] = []
    for place in (0, *(k + 1 for k in source.places)):
        taken.append(relax.Var(f"part{len(taken)}", returned.fields[place]))
        first.append(relax.VarBinding(taken[-1], relax.TupleGetItem(allocated, place)))
    first += [relax.VarBinding(field, relax.TupleGetItem(param, k))
              for param, fields in call.tuples for k, field in enumerate(fields)]  # fmt: skip
    params = items(call.func.params)
    arguments = [taken[0], _number(source.number), source.body,
                 relax.ShapeExpr(list(call.written)), _number(len(call.params)),
                 _number(len(call.results)), *call.params, *call.results, *taken[1:]]  # fmt: skip
    # Without a type the machine would have no register for what the captured function returns.
    done = relax.Var("done", relax.AnyType())
    run = relax.VarBinding(done, _with_context(RUN, arguments, relax.AnyType()))
    blocks = [relax.BindingBlock([*first, *call.outside, run])]
    body = relax.SeqExpr(blocks, call.func.body.body)
    return relax.Function(params, body, call.func.ret_ty, call.func.is_pure, call.func.attrs)


def _with_context(name: str, arguments: Sequence[Any], returns: Any) -> Any:
    op = tvm.ir.Op.get("relax.call_builtin_with_ctx")
    return relax.Call(op, [relax.ExternFunc(name), relax.Tuple(arguments)], ty_args=[returns])


def _number(value: int) -> Any:
    return tirx.IntImm("int64", value)
