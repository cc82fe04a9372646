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
from ....prepare.mutation.mutate import with_attrs
from .storages import Storage, merged, storage_of
from .written_params import written_params

#: The attribute with the symbolic dimensions for whose values TVM captures a CUDA graph each.
BY_SHAPE = "relax.rewrite_cuda_graph.capture_symbolic_vars"
#: The functions of `one_graph.hpp`.
RUN, STATE = "opinfo_graph_run", "opinfo_graph_state"
#: TVM's function that calls another one once, and keeps what that returns.
CACHED = "vm.builtin.cuda_graph.get_cached_alloc"
#: The number of the cached allocation; TVM's own is 0.
ALLOCATION = 4093
#: Operators of Relax that only make another view, or a value of the host.
VIEWS = ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset")
#: Fewer kernels are launched as fast one by one.
FEWEST = 2


class NoGraph(Exception):
    """A function is not one graph; the message is the reason."""


@dataclass(frozen=True)
class WholeCall:
    """A function whose bindings are those of a graph, or stay outside of it.

    Attributes:
        inside: The bindings of the graph, in order.
        outside: The bindings that allocate results, or make views of them and of parameters.
        results: The tensors that are allocated outside.
        storages: The memory of intermediates.
        written: The parameters that kernels write.
    """

    func: Any
    inside: tuple[Any, ...]
    outside: tuple[Any, ...]
    results: tuple[Any, ...]
    storages: tuple[Storage, ...]
    written: tuple[int, ...]


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


def whole_call(mod: Any, func: Any, kernels: Collection[str]) -> WholeCall | str:
    """How a function becomes one graph, or why it does not."""
    try:
        return _Reader(mod, func, kernels).read()
    except NoGraph as reason:
        return str(reason)


class _Reader:
    """Reads the bindings of a function in order."""

    def __init__(self, mod: Any, func: Any, kernels: Collection[str]) -> None:
        self.mod, self.func, self.kernels = mod, func, kernels
        #: The parameter or the allocated tensor that a variable is, or a view of; or a tuple.
        self.roots: NodeDict[Any] = NodeDict()
        self.storages: NodeDict[Storage] = NodeDict()
        self.views: list[Any] = []
        self.inside: list[Any] = []
        self.allocations: NodeDict[Any] = NodeDict()
        self.written: set[int] = set()
        self.count = 0

    def read(self) -> WholeCall:
        self._check_symbols()
        for k, param in enumerate(items(self.func.params)):
            if not isinstance(param.ty, relax.TensorType):
                raise NoGraph(f"parameter {param.name} is no tensor")
            self.roots[param] = k
        if not isinstance(self.func.body, relax.SeqExpr):
            raise NoGraph("the body is no sequence")
        for block in self.func.body.blocks:
            for binding in block.bindings:
                self._binding(binding)
        if self.count < FEWEST:
            raise NoGraph(f"it has {self.count} kernels")
        outside, results = self._outside(self.func.body.body)
        storages = tuple(self.storages.values())
        written = tuple(sorted(self.written))
        return WholeCall(self.func, tuple(self.inside), outside, results, storages, written)

    def _check_symbols(self) -> None:
        names = {str(v.name) for v in relax.analysis.defined_symbolic_vars(self.func)}
        captured = {str(name) for name in (self.func.attrs or {}).get(BY_SHAPE, ())}
        if not names <= captured:
            raise NoGraph(f"sizes have no bounds: {', '.join(sorted(names - captured))}")

    def _binding(self, binding: Any) -> None:
        if not isinstance(binding, relax.VarBinding):
            raise NoGraph(f"{type(binding).__name__} of {binding.var.name}")
        var, value = binding.var, binding.value
        if isinstance(value, relax.Call):
            return self._call(binding)
        if isinstance(value, relax.Var):
            self.roots[var] = self.roots.get(value)
        elif isinstance(value, relax.Tuple):
            self.roots[var] = tuple(map(self._root, items(value.fields)))
        elif isinstance(value, relax.TupleGetItem):
            fields = self.roots.get(value.tuple_value)
            if not isinstance(fields, tuple):
                raise NoGraph(f"{var.name} is an item of an unknown tuple")
            self.roots[var] = fields[int(value.index)]
        elif not _is_literal(value):
            raise NoGraph(f"{type(value).__name__} of {var.name}")
        self.inside.append(binding)
        self.views.append(binding)
        return None

    def _root(self, value: Any) -> Any:
        return self.roots.get(value) if isinstance(value, relax.Var) else None

    def _call(self, binding: Any) -> None:
        var, call = binding.var, binding.value
        name = str(getattr(call.op, "name", ""))
        if name == "relax.memory.alloc_storage":
            self.storages[var] = self._storage(var, call)
        elif name == "relax.memory.alloc_tensor":
            self.roots[var] = var
            self.inside.append(binding)
        elif name == "relax.builtin.alloc_tensor":
            self.roots[var] = var
            self.allocations[var] = binding
        elif name in VIEWS:
            self.roots[var] = self._root(items(call.args)[0])
            self.inside.append(binding)
            self.views.append(binding)
        else:
            self._kernel(call)
            self.inside.append(binding)
            self.count += 1

    def _storage(self, var: Any, call: Any) -> Storage:
        storage = storage_of(var, call)
        if storage is None:
            raise NoGraph(f"{var.name} has memory of another device, or of a size that is computed")
        return storage

    def _kernel(self, call: Any) -> None:
        args = items(call.args)
        if isinstance(call.op, tvm.ir.GlobalVar):
            func = self.mod[call.op]
            if not isinstance(func, tirx.PrimFunc):
                raise NoGraph(f"it calls {call.op.name_hint}")
            if (func.attrs or {}).get("tirx.is_host_func", False):
                raise NoGraph(f"{call.op.name_hint} runs on the host")
            written = written_params(func)
        elif isinstance(call.op, relax.ExternFunc) and str(call.op.global_symbol) in self.kernels:
            written = (len(args) - 1,)
        else:
            raise NoGraph(f"it calls {getattr(call.op, 'global_symbol', call.op)}")
        for k in written:
            root = self._root(args[k]) if k < len(args) else None
            if isinstance(root, int):
                self.written.add(root)

    def _outside(self, returned: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The bindings outside of the graph, and the allocated results."""
        needed: NodeDict[bool] = NodeDict()
        self._need(returned, needed)
        views = []
        for binding in reversed(self.views):
            if binding.var in needed:
                views.append(binding)
                self._need(binding.value, needed)
        results = tuple(v for v, _ in self.allocations.items())
        known: NodeDict[bool] = NodeDict()
        for var in (*items(self.func.params), *results, *(b.var for b in views)):
            known[var] = True
        for var, _ in needed.items():
            if var not in known:
                raise NoGraph(f"{var.name} is returned, and neither a parameter nor allocated")
        allocations = self.allocations.values()
        return (*allocations, *reversed(views)), results

    def _need(self, value: Any, needed: NodeDict[bool]) -> None:
        for var in relax.analysis.free_vars(value):
            needed[var] = True


def _is_literal(value: Any) -> bool:
    return not isinstance(value, (relax.If, relax.Function, relax.SeqExpr)) and not list(
        relax.analysis.free_vars(value))  # fmt: skip


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
    given = [*items(call.func.params), *call.results, *(s.var for s in call.storages)]
    body = relax.SeqExpr([relax.BindingBlock(call.inside)], given[0])
    func = relax.Function(given, body, given[0].ty)
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
    params = items(call.func.params)
    arguments = [taken[0], _number(source.number), source.body,
                 relax.ShapeExpr(list(call.written)), _number(len(params)),
                 _number(len(call.results)), *params, *call.results, *taken[1:]]  # fmt: skip
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
