"""Remove every hint from a PrimFunc that does not affect what it computes.

It works on the JSON graph, so that nothing is missed. Variables, buffers, blocks and functions get
numbered names. Attributes and annotations are removed, except `s_tir` (the dialect) and thread
tags, which affect semantics.

Before: `T_relu = T.sblock("compute")`, `lv3`, `schedule_rule`; after: `b0`, `v7`, nothing.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm_ffi.serialization import from_json_graph_str

from opinfo.analysis.support.tvm_compat import SBlock, type_key

_SBLOCK = type_key(SBlock)
RENAMED = {"ir.Var": ("name", "v"), _SBLOCK: ("name_hint", "b")}
EMPTIED = {_SBLOCK: "annotations", "tirx.For": "annotations"}
KEPT_ATTRS = ("s_tir",)
Graph = dict[str, Any]


def strip(func: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Return a function without names, attributes and annotations; `func` is not modified."""
    bare = func
    for key in dict(func.attrs or {}):
        if key not in KEPT_ATTRS:
            bare = bare.without_attr(key)
    graph = json.loads(tvm.ir.save_json(bare))
    nodes: list[Graph] = graph["nodes"]
    empty = _add(nodes, {"type": "ffi.Map", "data": []})
    for count, node in enumerate(list(nodes)):
        if node["type"] in RENAMED:
            field, prefix = RENAMED[node["type"]]
            name = _add(nodes, {"type": "ffi.String", "data": f"{prefix}{count}"})
            node["data"][field] = name
        if node["type"] in EMPTIED:
            node["data"][EMPTIED[node["type"]]] = empty
    return from_json_graph_str(json.dumps(graph))


def strings(func: tvm.tirx.PrimFunc) -> set[str]:
    """Return every string that is reachable from a function."""
    graph = json.loads(tvm.ir.save_json(func))
    return {node["data"] for node in graph["nodes"] if node["type"] == "ffi.String"}


def _add(nodes: list[Graph], node: Graph) -> int:
    nodes.append(node)
    return len(nodes) - 1


@relax.expr_functor.mutator
class _Rename(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, renamed: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar]) -> None:
        super().__init__(None)
        self.renamed = renamed

    def visit_global_var_(self, gvar: tvm.ir.GlobalVar) -> relax.Expr:
        return self.renamed.get(gvar, gvar)


def strip_module(mod: tvm.IRModule) -> tvm.IRModule:
    """Strip every PrimFunc and name them f0, f1 … in an uninformative order.

    Relax functions keep their names; `mod` is not modified.
    """
    prims = [(g, f) for g, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    prims.sort(key=lambda item: tvm_ffi.structural_hash(item[1]))
    renamed = {}
    for count, (gvar, _) in enumerate(prims):
        renamed[gvar] = tvm.ir.GlobalVar(f"f{count}")
        relax.expr._update_type(renamed[gvar], gvar.ty)
    functions: dict[tvm.ir.GlobalVar, Any] = {renamed[g]: strip(f) for g, f in prims}
    for gvar, func in mod.functions_items():
        if gvar not in renamed:
            functions[gvar] = _Rename(renamed).visit_expr(func)
    return tvm.IRModule(functions, attrs=mod.attrs)
