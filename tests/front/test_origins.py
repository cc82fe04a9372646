"""The model's names of its nodes: on what is imported, and through every rewrite to a library."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from opinfo.analysis.support.origin import node_of
from opinfo.byoc import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.front.prim_funcs import legalize
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.frontend.formats.from_torch import from_program
from opinfo.layout import plan_layout

from ..byoc.backends.toy import TOY


def _onnx() -> Any:
    """A convolution with bias is three operators of Relax, a split has two results."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="/stem/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("Split", ["c"], ["s", "t"], name="/stem/Split", axis=1),
        helper.make_node("Relu", ["s"], ["u"], name="/left/Relu"),
        helper.make_node("Tanh", ["t"], ["v"]),
        helper.make_node("Add", ["u", "v"], ["y"], name="/Add"),
    ]
    shape = [1, 2, 6, 6]
    weights = [numpy_helper.from_array(np.ones((4, 2, 3, 3), "float32"), "w"),
               numpy_helper.from_array(np.ones(4, "float32"), "b")]  # fmt: skip
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _nodes(mod: Any) -> dict[str, set[str]]:
    """Names by operator or callee."""
    found: dict[str, set[str]] = {}
    for block in mod["main"].body.blocks:
        for b in block.bindings:
            if isinstance(b.value, relax.Call):
                callee = b.value.args[0]
                key = str(getattr(callee, "name_hint", getattr(callee, "global_symbol",
                                                               b.value.op.name)))  # fmt: skip
                found.setdefault(key.removeprefix("relax."), set()).add(node_of(b))
    return found


def test_every_operator_of_an_onnx_node_has_its_name() -> None:
    found = _nodes(from_model(_onnx(), {}))
    assert found["nn.conv2d"] == {"/stem/Conv"} and found["reshape"] == {"/stem/Conv"}
    assert found["add"] == {"/stem/Conv", "/Add"} and found["split"] == {"/stem/Split"}
    assert found["nn.relu"] == {"/left/Relu"}
    assert found["tanh"] == {"v"}  # it has no name, so its output's


def test_the_importer_is_as_it_was_afterwards() -> None:
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

    before = ONNXGraphImporter._construct_nodes
    from_model(_onnx(), {})
    assert ONNXGraphImporter._construct_nodes is before


def test_names_stay_when_layouts_are_planned_and_backends_called() -> None:
    mod = legalize(from_model(_onnx(), {}))
    found = _nodes(plan_layout(mod, desired={"nn.conv2d": ["NHWC"]}).module)
    convs = [names for callee, names in found.items() if callee.startswith("conv2d")]
    assert convs == [{"/stem/Conv"}]
    done = dispatch(prepare(mod, [TOY]), [TOY])
    regions = [names for callee, names in _nodes(done.module).items() if callee.startswith("toy")]
    assert {"/left/Relu"} in regions
    assert ("/left/Relu",) in [t.nodes for t in done.taken]
    assert {o.node for o in done.left if o.op == "relax.split"} == {"/stem/Split"}


def test_a_node_of_torch_is_named_by_its_module() -> None:
    import torch

    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.inner(x))

    program = torch.export.export(Head(), (torch.ones(2, 4),))
    found = _nodes(from_program(program))
    assert {n.split("/")[0] for n in found["nn.relu"]} == {"inner.1"}
    assert all(n.startswith("inner.0/") for n in found["matmul"])
    assert found["tanh"] == {"tanh"}
