"""Attach the model's node names to the bindings that TVM's importers emit.

opinfo's importer of torch programs keeps the names, and the variables get spans afterwards; see
:mod:`opinfo.analysis.support.origin`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.support.ir.nested_bindings import nested_bindings
from ...analysis.support.origin import span
from .importer import LONGEST

Names = dict[Any, str]


def of_torch(converted: Sequence[tuple[Any, Any]]) -> Names:
    """Return the names of values, such as ``encoder.layer.0.output.dense/addmm_3``.

    Args:
        converted: The value of each node of a `torch.fx` graph, with the node.
    """
    names = Names()
    for value, node in converted:
        modules = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
        path = modules[-1].removeprefix("L['self'].") if modules else ""
        name = f"{path}/{node.name}" if path else str(node.name)
        for expr in _leaves(value):
            names.setdefault(expr, name[:LONGEST])
    return names


def named(mod: tvm.IRModule, names: Names) -> tvm.IRModule:
    """Attach a span to each variable whose node is known."""
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            mutator = _Spans(_of_variables(func, names))
            mod.update_func(gvar, mutator.visit_expr(func))
    return mod


def _leaves(result: Any) -> Iterator[Any]:
    """Yield the variables and calls of a result, which may be a tuple."""
    if isinstance(result, relax.Tuple):
        result = list(result.fields)
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from _leaves(part)
    elif isinstance(result, (relax.Var, tvm.ir.Call)):
        yield result


def _of_variables(func: Any, names: Names) -> Names:
    """Map variables to nodes; an intermediate step gets the node of its only reader.

    A check, which nothing reads, gets the node of the next binding that has one: a converter emits
    its checks first.
    """
    nodes: Names = {}
    readers: dict[Any, set[str]] = defaultdict(set)
    following = None
    for binding in reversed(list(nested_bindings(func.body))):
        value = getattr(binding, "value", None)
        name = names.get(binding.var) or names.get(value)
        if name is None and len(readers[binding.var]) == 1:
            (name,) = readers[binding.var]
        if name is None and isinstance(binding, relax.MatchCast):
            name = following
        if name:
            nodes[binding.var] = following = name
        read: list[Any] = []
        tvm_ffi.structural_walk(value, (relax.Var, read.append))
        for var in read:
            readers[var].add(name or "")
    return nodes


@relax.expr_functor.mutator
class _Spans(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names

    def visit_var_def_(self, var: Any) -> Any:
        name = self.names.get(var)
        return var if name is None else type(var)(var.name, var.ty, span(name))

    visit_dataflow_var_def_ = visit_var_def_
