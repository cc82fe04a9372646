"""Present a module of Relax operators, not lowered, like one of recovered operators.

Names, attributes and operands come from the calls, so a pattern matches here what it would match if
lowering lost nothing. Literal scalars are attributes, as for a PrimFunc.

    R.multiply(x, R.const(2.0))       relax.multiply(%0, x2=2.0)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from opinfo.analysis.answer.recovered import Recovered
from opinfo.analysis.results.op_info import Certificate, OpInfo, Refusal
from opinfo.byoc.matching.lowered import Lowered
from opinfo.byoc.patterns.dependences import flows
from opinfo.layout.graph.read_graph import GraphReader
from opinfo.layout.graph.relax_graph import Graph, Op, extents
from opinfo.layout.rewrite.func_proofs import FuncProofs

PRODUCTS = ("relax.nn.conv", "relax.matmul")


def unlowered(mod: Any) -> Lowered:
    """Return the `main` of a module as if it were lowered."""
    gvar = mod.get_global_var("main")
    reader = _Calls(mod)
    reader.function(mod[gvar])
    graph = Graph(tuple(reader.values), tuple(reader.ops), reader.by_var, reader.of, reader.tuples,
                  reader.effect)  # fmt: skip
    blocks = tuple(flows(mod[gvar], graph))
    return Lowered(mod, {gvar: graph}, reader.infos, {gvar: blocks}, FuncProofs())


class _Calls(GraphReader):
    """Reads calls of Relax operators as the reader of lowered graphs reads ``call_tir``."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.infos: dict[Op, Recovered] = {}

    def call_tir(self, binding: Any, call: Any) -> bool:
        name = str(getattr(getattr(call, "op", None), "name", ""))
        types = list(getattr(call.ty, "fields", [call.ty])) if name.startswith("relax.") else []
        if not types or any(extents(getattr(t, "shape", None)) is None for t in types):
            return False
        arguments = _named(name, call)
        tensors = {k: a for k, a in arguments.items() if _is_tensor(a) and not _literal(a)}
        inputs = tuple(map(self.argument, tensors.values()))
        op = Op(name, None, call, inputs, ())
        self.add(binding, op, types)
        self.infos[op] = Recovered(_info(name, call, arguments, len(tensors)))
        return True


def _info(name: str, call: Any, arguments: Mapping[str, Any], tensors: int) -> OpInfo | Refusal:
    if name == "relax.call_tir":
        return Refusal("not an operator of Relax")
    attrs = {k: _value(a) for k, a in arguments.items() if not _is_tensor(a) or _literal(a)}
    kind: Any = "kOutEWiseFusable" if name.startswith(PRODUCTS) else "kElemWise"
    attributes = {k: _value(getattr(call.attrs, k)) for k in _parameters(name)
             if call.attrs is not None and hasattr(call.attrs, k)}  # fmt: skip
    return OpInfo(name, {**attributes, **attrs}, tuple(range(tensors)), kind, (),
                  Certificate("rebuilt", True))  # fmt: skip


def _named(name: str, call: Any) -> dict[str, Any]:
    """Return the arguments by the names of the constructor's parameters; tuples are split."""
    names = _parameters(name)
    out: dict[str, Any] = {}
    for k, argument in enumerate(call.args):
        param = names[k] if k < len(names) else f"x{k}"
        parts = (
            list(argument.fields)
            if isinstance(argument, relax.Tuple) and _of_tensors(argument)
            else [argument]
        )
        out |= {param if len(parts) == 1 else f"{param}.{j}": p for j, p in enumerate(parts)}
    return out


def _parameters(name: str) -> list[str]:
    constructor: Any = relax.op
    for part in name.removeprefix("relax.").split("."):
        constructor = getattr(constructor, part, None)
    return list(inspect.signature(constructor).parameters) if callable(constructor) else []


def _of_tensors(argument: Any) -> bool:
    return any(_is_tensor(f) for f in argument.fields)


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, (relax.Var, GenericConst)) and hasattr(argument.ty, "shape")


def _literal(argument: Any) -> bool:
    return isinstance(argument, GenericConst) and argument.ty.ndim == 0


def _value(argument: Any) -> Any:
    if isinstance(argument, GenericConst):
        return argument.value.numpy().item()
    if isinstance(argument, (tvm.tirx.IntImm, tvm.tirx.FloatImm)):
        return argument.value
    if isinstance(argument, relax.ShapeExpr):
        return [_value(v) for v in argument.values]
    if isinstance(argument, relax.Tuple):
        return [_value(v) for v in argument.fields]
    if isinstance(argument, (tuple, list, tvm_ffi.Array)):
        return [_value(v) for v in argument]
    return argument
