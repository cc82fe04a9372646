"""The dataflow graph of activations in a Relax function, one node for each computing binding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ..analysis.support.origin import node_of

INPUT, OUTPUT = "input", "result"


@dataclass(frozen=True)
class GraphBinding:
    """A binding: its variable ``name``, the ``op`` that it calls, and the values that it ``reads``.

    ``gives`` lists its values, which are ``name.0``, ``name.1``, … for a tuple. ``node`` is the
    name of the model's node, if known.
    """

    name: str
    op: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    type: str
    node: str = ""


def main_of(mod: tvm.IRModule) -> Any:
    """Return ``main``, or else the first public Relax function.

    Raises:
        ValueError: The module has no Relax function.
    """
    functions = {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, relax.Function)}
    if not functions:
        raise ValueError("the module has no Relax function")
    outside = [name for name, f in functions.items() if "global_symbol" in (f.attrs or {})]
    return functions["main" if "main" in functions else min(outside or functions)]


def dataflow(func: Any) -> list[GraphBinding]:
    """Return the nodes of a function in program order, without constant subgraphs."""
    reader = _GraphCollector()
    inputs = int((func.attrs or {}).get("num_input", len(func.params)))
    for k, param in enumerate(func.params):
        if k < inputs:
            reader.add(param, INPUT, ())
    for block in func.body.blocks:
        for binding in block.bindings:
            reader.binding(binding)
    reads = reader.read(func.body.body)
    reader.nodes.append(GraphBinding(OUTPUT, OUTPUT, reads, (), ""))
    return reader.nodes


class _GraphCollector:
    """Collects the nodes of the graph, and of which of them each variable is computed."""

    def __init__(self) -> None:
        self.nodes: list[GraphBinding] = []
        self.values: dict[Any, tuple[str, ...]] = {}

    def add(self, var: Any, op: str, reads: Sequence[str], node: str = "") -> None:
        types = [_type(t) for t in getattr(var.ty, "fields", [var.ty])]
        name = str(var.name)
        many = hasattr(var.ty, "fields")
        gives = tuple(f"{name}.{k}" for k in range(len(types))) if many else (name,)
        self.values[var] = gives
        reads = tuple(dict.fromkeys(reads))
        self.nodes.append(GraphBinding(name, op, reads, gives, ", ".join(types), node))

    def binding(self, binding: Any) -> None:
        var, value = binding.var, getattr(binding, "value", None)
        if isinstance(value, relax.TupleGetItem):
            elements = self.read(value.tuple_value)
            if len(elements) == len(value.tuple_value.ty.fields):
                self.values[var] = (elements[value.index],)
            elif elements:
                self.values[var] = elements
        elif isinstance(value, (relax.Var, relax.Tuple)):
            self.values[var] = self.read(value)
        elif reads := self.read(value):
            self.add(var, _op(value), reads, node_of(binding))

    def read(self, expr: Any) -> tuple[str, ...]:
        """Return the values that an expression reads."""
        variables: list[Any] = []
        if expr is not None:
            tvm_ffi.structural_walk(expr, (relax.Var, variables.append))
        return tuple(_flat(self.values.get(var, ()) for var in variables))


def _flat(parts: Iterable[tuple[str, ...]]) -> Iterable[str]:
    return (name for part in parts for name in part)


def _op(value: Any) -> str:
    if isinstance(value, relax.If):
        return "if"
    if not isinstance(value, tvm.ir.Call):
        return type(value).__name__
    first = value.args[0] if len(value.args) else None
    if isinstance(first, tvm.ir.GlobalVar):
        return str(first.name_hint)
    if isinstance(first, relax.ExternFunc):
        return str(first.global_symbol)
    return str(getattr(value.op, "name", getattr(value.op, "name_hint", "call")))


def _type(ty: Any) -> str:
    """Format a type: ``float32[1, 3, n, n]``, or its name."""
    shape = getattr(getattr(ty, "shape", None), "values", None)
    if shape is None:
        return str(getattr(ty, "dtype", type(ty).__name__))
    dims = ", ".join(str(getattr(e, "value", e)) for e in shape)
    return f"{ty.dtype}[{dims}]"
