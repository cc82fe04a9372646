"""Which files of a model a runtime gets: what it computes otherwise, it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import SharedWork
from opinfo.byoc.compile_file import FileRefused
from opinfo.front.file_builds import FileBuilds
from opinfo.frontend.source_file import source_of
from opinfo.jit.arguments.signature import Signature

from .model_file_cases import declared, saved


@pytest.mark.parametrize("dtype", ["double", "int16", "uint16", "uint32", "uint64"])
def test_onnx_runtime_gets_files_of_all_its_numbers(dtype: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    initial = [numpy_helper.from_array(np.array([3, 2, 0, 1]), "i")]
    kind = getattr(TensorProto, dtype.upper())
    built = _built("onnxruntime", nodes, ["x"], kind, tmp_path, initial)
    x = np.array([1, 2, 3, 2**15 - 1], dtype)
    np.testing.assert_array_equal(built.run(x), x[[3, 2, 0, 1]])


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
@pytest.mark.parametrize(
    ("nodes", "dtype", "message"),
    [
        ([helper.make_node("Add", ["x", "x"], ["y"])], "int64", "is int64, which OpenVINO"),
        ([helper.make_node("Mul", ["x", "x"], ["y"])], "double", "dtype float64"),
        ([helper.make_node("Div", ["x", "x"], ["y"])], "int32", "is int32, which OpenVINO rounds"),
    ],
)
def test_openvino_does_not_get_what_it_computes_otherwise(
    nodes: Any, dtype: str, message: str, tmp_path: Path
) -> None:
    """Random inputs would not show it: their integers are 0 and 1."""
    kind = getattr(TensorProto, dtype.upper())
    with pytest.raises(FileRefused, match=message):
        _in_openvino(nodes, ["x"], kind, tmp_path)


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_openvino_does_not_get_a_file_with_an_input_that_nothing_reads(tmp_path: Path) -> None:
    """It has no such input, so that calls would fail: inputs have numbers."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    with pytest.raises(FileRefused, match="no operator reads the input u, which openvino drops"):
        _in_openvino(nodes, ["u", "x"], TensorProto.FLOAT, tmp_path)


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
@pytest.mark.parametrize("point", [3, [0, 2, 4, 5], 2, [0, 2, 4, -6]])
def test_openvino_gets_even_zero_points_only(point: Any, tmp_path: Path) -> None:
    """It rounds x / scale + zero point to even, and ONNX x / scale."""
    scale = np.full(np.shape(point), 0.5, "float32")
    initial = [numpy_helper.from_array(np.asarray(a), n)
               for n, a in (("s", scale), ("z", np.asarray(point, "int8")))]  # fmt: skip
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0)]  # fmt: skip
    if np.any(np.asarray(point) % 2):
        with pytest.raises(FileRefused, match="the zero point may be odd"):
            _in_openvino(nodes, ["x"], TensorProto.FLOAT, tmp_path, initial)
        return
    x = np.array([-0.75, 0.25, 0.75, 1.25], "float32")  # -1.5, 0.5, 1.5 and 2.5 steps
    built = _in_openvino(nodes, ["x"], TensorProto.FLOAT, tmp_path, initial)
    np.testing.assert_array_equal(built.run(x), [-1, 0, 1, 1])


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_openvino_does_not_get_products_of_integers_with_odd_zero_points(tmp_path: Path) -> None:
    initial = [numpy_helper.from_array(np.asarray(a), n) for n, a in (
        ("s", np.float32(1)), ("t", np.float32(2)), ("z", np.int8(2)), ("o", np.int8(3)),
        ("w", np.eye(4, dtype="int8")))]  # fmt: skip
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "t", "o"], ["r"]),
             helper.make_node("DequantizeLinear", ["r", "t", "o"], ["y"])]  # fmt: skip
    with pytest.raises(FileRefused, match="the zero point may be odd"):
        _in_openvino(nodes, ["x"], TensorProto.FLOAT, tmp_path, initial)


def _in_openvino(
    nodes: Any, inputs: list[str], kind: int, tmp_path: Path, initial: Any = ()
) -> Any:
    return _built("openvino", nodes, inputs, kind, tmp_path, initial)


def _built(
    backend: str, nodes: Any, inputs: list[str], kind: int, tmp_path: Path, initial: Any = ()
) -> Any:
    """Build a file of vectors of four elements for a runtime."""
    graph = helper.make_graph(nodes, "g", [declared(x, [4], kind) for x in inputs],
                              [declared("y", [4], kind)], initial)  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    mod = opinfo.load(saved(tmp_path, model))
    source = source_of(mod)
    assert source is not None
    signatures = {"main": Signature.of(mod["main"], "main")}
    target = tvm.target.Target("llvm")
    files = FileBuilds(source, mod, target, signatures, None, SharedWork(mod))
    return files.build(backend, runs_elsewhere=False)
