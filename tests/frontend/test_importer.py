"""What TVM's importers refuse: the node is named, and nothing is left open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opinfo


def _onnx(path: Path, nodes: list[Any], shape: list[int] | None = None) -> Path:
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape or [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y])
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def _refused(path: Path) -> str:
    with pytest.raises(opinfo.FrontendError) as error:
        opinfo.load(path)
    message = str(error.value)
    assert "\n" not in message and str(path) in message
    return message


def test_the_node_of_onnx_is_named(tmp_path: Path) -> None:
    from onnx import helper

    nodes = [helper.make_node("Relu", ["x"], ["r"], name="first"),
             helper.make_node("Abs", ["nope"], ["y"], name="second")]  # fmt: skip
    message = _refused(_onnx(tmp_path / "m.onnx", nodes))
    assert "node 'second' (Abs): its input 'nope' is defined by no node" in message


def test_an_unnamed_node_is_identified_by_its_result(tmp_path: Path) -> None:
    from onnx import helper

    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Abs", ["nope"], ["y"])]
    message = _refused(_onnx(tmp_path / "m.onnx", nodes))
    assert "the node of 'y' (Abs): its input 'nope' is defined by no node" in message


def test_the_first_node_that_nothing_converts_is_named(tmp_path: Path) -> None:
    from onnx import helper

    nodes = [helper.make_node("Relu", ["x"], ["r"], name="first"),
             helper.make_node("NoSuchOp", ["r"], ["s"], name="odd"),
             helper.make_node("Relu", ["s"], ["y"], name="last")]  # fmt: skip
    message = _refused(_onnx(tmp_path / "m.onnx", nodes))
    assert "node 'odd' (NoSuchOp): the operator NoSuchOp has no lowering to Relax" in message


def test_a_node_inside_a_branch_is_named(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    y = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    good = helper.make_graph([helper.make_node("Relu", ["x"], ["b"])], "good", [], [y])
    wrong = helper.make_node("Abs", ["nope"], ["b"], name="inside")
    bad = helper.make_graph([wrong], "bad", [], [y])
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
             helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
             helper.make_node("If", ["c"], ["y"], name="choice", then_branch=good,
                              else_branch=bad)]  # fmt: skip
    message = _refused(_onnx(tmp_path / "m.onnx", nodes))
    assert "node 'inside' (Abs): its input 'nope' is defined by no node" in message


def test_the_node_of_torch_and_its_line_are_named(tmp_path: Path) -> None:
    import torch

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.relu(x)
            return torch.linalg.qr(y)[0]  # the line that must be reported

    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Net(), (torch.zeros(4, 4),)), path)
    message = _refused(path)
    here = Path(__file__).read_text().splitlines()
    line = next(k for k, text in enumerate(here, 1) if "the line that must be reported" in text)
    where = f"{Path(__file__).name}:{line}"
    assert f" at node 'linalg_qr' (aten.linalg_qr.default), {where}: " in message


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """TVM would say so on standard error, after the process's own line."""
    from onnx import helper

    nodes = [helper.make_node("Abs", ["nope"], ["y"])]
    path = _onnx(tmp_path / "m.onnx", nodes)
    text = (
        "import sys; sys.modules['torch'] = None  # TVM would import it\n"
        "import opinfo\n"
        f"try:\n    opinfo.load({str(path)!r})\n"
        "except opinfo.FrontendError as e:\n    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "its input 'nope' is defined by no node" in done.stdout
    assert "BlockBuilder" not in done.stderr
