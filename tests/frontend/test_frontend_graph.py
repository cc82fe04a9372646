"""JSON graphs: well-typed graphs pass unchanged, errors are named."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.frontend import FrontendError
from opinfo.frontend.checks.ir_json.ir_fields import fields_of
from opinfo.frontend.checks.ir_json.json_graph import DEPTH, BadGraph, checked
from opinfo.frontend.formats.from_json import load as load_json
from opinfo.frontend.formats.from_script import from_text

SCRIPT = """
from tvm.script import ir as I, relax as R, tirx as T
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def relu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"op_pattern": 0, "tirx.noalias": True})
        for i in range(4):
            with T.sblock("relu"):
                v = T.axis.remap("S", [i])
                B[v] = T.max(A[v], T.float32("-inf"))
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
        with R.dataflow():
            y = R.layout_transform(x, index_map=lambda i, j: (j, i))
            z = R.permute_dims(y, axes=[1, 0])
            R.output(z)
        return z
"""


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    layout = "T.index_map(lambda i, j: (j, i))"
    return from_text(SCRIPT.replace("index_map=lambda i, j: (j, i)", layout))


def _nodes(mod: Any) -> tuple[int, list[dict[str, Any]]]:
    graph = json.loads(tvm.ir.save_json(mod))
    return graph["root_index"], graph["nodes"]


def _refused(nodes: list[dict[str, Any]], root: Any = None) -> str:
    with pytest.raises(BadGraph) as error:
        checked(
            json.dumps({"root_index": len(nodes) - 1 if root is None else root, "nodes": nodes})
        )
    return str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_constants_pass(dtype: str, shape: tuple[int, ...]) -> None:
    text = tvm.ir.save_json(relax.const(np.ones(shape, dtype)))
    tvm.ir.assert_structural_equal(tvm.ir.load_json(checked(text)), tvm.ir.load_json(text))


def test_a_module_passes_as_it_is(module: tvm.IRModule) -> None:
    for mod in (module, relax.transform.LegalizeOps()(module)):
        tvm.ir.assert_structural_equal(tvm.ir.load_json(checked(tvm.ir.save_json(mod))), mod)


def test_every_field_of_the_wrong_type_is_refused(module: tvm.IRModule) -> None:
    """A map is of no type that a field of a node has, except of maps and of anything."""
    root, nodes = _nodes(module)
    tried, loose = 0, ("Any", "ffi.Object", "ffi.Map", "int")
    nodes = [{"type": "ffi.Map", "data": []}, *map(_shifted, nodes)]
    for place, node in enumerate(nodes):
        for name, value in node["data"].items() if isinstance(node.get("data"), dict) else ():
            schema = str((fields_of(node["type"]) or {})[name].schema)
            if type(value) is not int or any(f"'{t}'" in schema for t in loose):
                continue
            broken = {**node, "data": {**node["data"], name: 0}}
            message = _refused([*nodes[:place], broken, *nodes[place + 1 :]], root + 1)
            assert f"node {place} " in message and name in message
            tried += 1
    assert tried > 100


def _shifted(node: dict[str, Any]) -> dict[str, Any]:
    """The node with its references one further on."""
    data = node.get("data")
    if node["type"] in ("ffi.Array", "ffi.Map"):
        return {**node, "data": [index + 1 for index in data or ()]}
    if not isinstance(data, dict):
        return node
    inline = {k for k, f in (fields_of(node["type"]) or {}).items() if f.inline is not None}
    return {**node, "data": {k: v if k in inline else v + 1 for k, v in data.items()}}


def _tensor(extent: int, length: int, there: int) -> dict[str, str]:
    head = bytes.fromhex("3fa1b496f0405edd" + "00" * 8 + "0100000000000000" + "0100000002200100")
    raw = head + extent.to_bytes(8, "little", signed=True) + length.to_bytes(8, "little")
    return {"type": "ffi.Tensor", "data": base64.b64encode(raw + b"\0" * there).decode()}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"type": "ffi.Module", "data": ""}], "not a type of IR"),
        ([{"type": "ffi.Function", "data": {}}], "not a type of IR"),
        ([{"type": "no.Such", "data": {}}], "not a type of IR"),
        ([{"type": "ir.EnvFunc", "data": "runtime.ModuleLoadFromFile"}], "unknown name"),
        ([{"type": "ir.Op", "data": "relax.no"}], "unknown name"),
        ([{"type": "ffi.Array", "data": [0]}], "refers to node 0, expected an earlier one"),
        ([{"type": "None"}, {"type": "ffi.Map", "data": [0]}], "keys and values"),
        ([{"type": "ffi.Array", "data": [True]}], "refers to node True"),
        ([{"type": "int", "data": 2**63}], "invalid value"),
        ([{"type": "None", "x": 1}], "unknown keys"),
        ([7], "an object with a type"),
        ([_tensor(2**40, 2**42, 4)], "invalid value"),
        ([_tensor(-1, 4, 4)], "invalid value"),
        ([_tensor(1, 4, 3)], "invalid value"),
        ([{"type": "ir.Range", "data": {"min": 0}}], "its fields are min; expected extent, min"),
        ([{"type": "ffi.Array", "data": []},
          *({"type": "ffi.Array", "data": [k]} for k in range(DEPTH + 1))], "nested more than"),
        ([{"type": "ffi.Array", "data": []},
          *({"type": "ffi.Array", "data": [k, k]} for k in range(40))], "uses other nodes more"),
    ],
)  # fmt: skip
def test_other_graphs_are_named(nodes: list[Any], message: str) -> None:
    assert message in _refused(nodes)


@pytest.mark.parametrize("root", [-1, 1, 2, None, True, "0", 0.0])
def test_a_root_is_a_node(root: Any) -> None:
    with pytest.raises(BadGraph, match="root_index is"):
        checked(json.dumps({"root_index": root, "nodes": [{"type": "None"}]}))


def test_what_is_read_is_what_was_checked() -> None:
    """Of two equal keys readers take the first or the last."""
    text = '{"root_index":9,"root_index":0,"nodes":[{"type":"ffi.Module","type":"None"}]}'
    assert json.loads(checked(text)) == {"root_index": 0, "nodes": [{"type": "None"}]}
    assert checked(text).count("root_index") == checked(text).count("type") == 1


def test_an_attribute_out_of_range_is_found_where_the_file_is_read(
    tmp_path: Path, module: tvm.IRModule
) -> None:
    """Types are those of the file; a pass that believes them may do anything."""
    root, nodes = _nodes(module)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"root_index": root, "nodes": nodes, "metadata": {}}))
    assert isinstance(load_json(path, {}), tvm.IRModule)
    (attrs,) = (n for n in nodes if n["type"] == "relax.attrs.PermuteDimsAttrs")
    axes = attrs["data"]["axes"]
    other = [k for k, n in enumerate(nodes[:axes]) if n["type"] == "int" and n["data"] > 1]
    nodes[axes]["data"][0] = other[0]
    path.write_text(json.dumps({"root_index": root, "nodes": nodes, "metadata": {}}))
    with pytest.raises(FrontendError, match=r"not well typed: a call of relax\.permute_dims: "):
        load_json(path, {})


@pytest.mark.parametrize("rank", [64, 65])
def test_tensors_have_as_many_dimensions_as_those_of_numpy(rank: int) -> None:
    """An operator on a tensor of thousands of dimensions is a nest of loops that crashes TVM."""
    typed = tvm.ir.save_json(relax.Var("x", relax.TensorType([1] * rank, "float32")))
    buffer = tvm.ir.save_json(tvm.tirx.decl_buffer([1] * rank))
    counted = tvm.ir.save_json(relax.Var("x", relax.TensorType(ndim=rank)))
    shape = tvm.ir.save_json(relax.ShapeExpr([1] * rank))
    assert json.loads(checked(shape))
    for text in (typed, buffer, counted):
        if rank > 64:
            with pytest.raises(BadGraph, match="a tensor of 65 dimensions, expected at most 64"):
                checked(text)
        else:
            assert json.loads(checked(text))
