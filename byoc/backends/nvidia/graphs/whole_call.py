"""How a function becomes one CUDA graph: which bindings are in it, and what it is called with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from .....analysis.lifting.tir.node import NodeDict, items
from .....analysis.support.ir.call_ops import op_name
from .storages import Storage, storage_of
from .written_params import written_params

#: The attribute with the symbolic dimensions for whose values TVM captures a CUDA graph each.
BY_SHAPE = "relax.rewrite_cuda_graph.capture_symbolic_vars"
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
        params: The parameters of the graph: tensors, with the fields of tuples one by one.
        tuples: Each parameter that is a tuple, and its fields among ``params``.
    """

    func: Any
    inside: tuple[Any, ...]
    outside: tuple[Any, ...]
    results: tuple[Any, ...]
    storages: tuple[Storage, ...]
    written: tuple[int, ...]
    params: tuple[Any, ...]
    tuples: tuple[tuple[Any, tuple[Any, ...]], ...]


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
        self.params: list[Any] = []
        self.tuples: list[tuple[Any, tuple[Any, ...]]] = []
        self.count = 0

    def read(self) -> WholeCall:
        self._check_symbols()
        for param in items(self.func.params):
            self._param(param)
        if not isinstance(self.func.body, relax.SeqExpr):
            raise NoGraph("the body is not a sequence")
        for block in self.func.body.blocks:
            for binding in block.bindings:
                self._binding(binding)
        if self.count < FEWEST:
            raise NoGraph(f"it has {self.count} kernels")
        outside, results = self._outside(self.func.body.body)
        storages = tuple(self.storages.values())
        written = tuple(sorted(self.written))
        return WholeCall(self.func, tuple(self.inside), outside, results, storages, written,
                         tuple(self.params), tuple(self.tuples))  # fmt: skip

    def _param(self, param: Any) -> None:
        fields = items(param.ty.fields) if isinstance(param.ty, relax.TupleType) else [param.ty]
        if not all(isinstance(f, relax.TensorType) for f in fields):
            raise NoGraph(f"parameter {param.name} is neither a tensor nor a tuple of tensors")
        first = len(self.params)
        if isinstance(param.ty, relax.TensorType):
            self.params.append(param)
            self.roots[param] = first
            return
        parts = tuple(relax.Var(f"{param.name}_{k}", f) for k, f in enumerate(fields))
        self.params += parts
        self.tuples.append((param, parts))
        self.roots[param] = tuple(range(first, len(self.params)))

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
        name = op_name(call)
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
