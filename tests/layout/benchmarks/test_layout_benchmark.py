"""What the benchmark of layouts counts for others, and how it tells it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from benchmarks.common import nets
from benchmarks.layout.layouts.conversions import NHWC, Expected, Left, Row, plan
from benchmarks.layout.layouts.conversions_page import ahead, page
from benchmarks.layout.layouts.convert_layout import Converted, left_by_convert_layout
from benchmarks.layout.layouts.transpose_optimiser import bracketed, exported, optimised, transposes
from opinfo.layout.report.plan_report import Conversions
from tests.common.run import run


@pytest.mark.parametrize("name", ["mixed"])
def test_the_onnx_model_computes_the_same_whatever_its_layouts(name: str) -> None:
    import onnxruntime as ort

    (value,) = nets.inputs(name)
    model = optimised(bracketed(exported(name)))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: value})
    (expected,) = run(nets.module(name), [value])
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def _onnx(nodes: list[Any], weights: dict[str, Any], shape: tuple[int, ...]) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_only_transposes_of_activations_that_move_count() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["v"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),  # 1 x 5: moves nothing
        helper.make_node("Concat", ["b", "b"], ["c"], axis=1),
        helper.make_node("Transpose", ["c"], ["y"], perm=[1, 0]),
    ]
    model = _onnx(nodes, {"w": np.ones((5, 3), "float32")}, (1, 3))
    value = np.ones((1, 3), "float32")
    assert transposes(model, [value]) == Conversions(1, 2 * 5 * 4)


def test_a_convolution_goes_between_transposes_that_nothing_cancels() -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    weight = np.ones((4, 3, 3, 3), "float32")
    model = bracketed(_onnx([conv], {"w": weight}, (1, 3, 8, 8)))
    assert [n.op_type for n in model.graph.node] == ["Transpose", "Loop", "Transpose"]
    assert isinstance(model, onnx.ModelProto)
    value = np.ones((1, 3, 8, 8), "float32")
    assert transposes(optimised(model), [value]) == Conversions(2, (3 + 4) * 64 * 4)


def test_convert_layout_and_what_it_cannot() -> None:
    assert left_by_convert_layout(nets.module("nhwc_import")).left is not None

    x = relax.Var("x", relax.TensorType((1, 3, 8, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(np.ones((4, 3, 3, 3), "float32"))
            y = builder.emit(relax.op.nn.conv2d(x, weight))
            more = relax.const(np.ones((4, 3, 3, 3), "float32"))
            z = builder.emit_output(relax.op.nn.conv2d_transpose(y, more))
        builder.emit_func_output(z)
    found = left_by_convert_layout(builder.get())
    assert found.problem == "does not compile: relax.nn.conv2d_transpose"


def _row(tir: Left | str, convert_layout: int = 2, onnx_runtime: int = 2) -> Row:
    return Row(
        "unet", Conversions(0, 0), Converted(Conversions(convert_layout, 2048), "does not compile"),
        Conversions(onnx_runtime, 4096), {"tir": tir}, 0.5,
    )  # fmt: skip


def test_page_and_who_is_ahead() -> None:
    left = Left(Conversions(2, 1024), "optimal", 2048.0, 2048.0, 0.25)
    text = page(
        [_row(left)], {"unet": {"NCHW8c": left, "NCHW16c": "raises ValueError"}}, [_row(left)]
    )
    assert (
        "| unet | `float32[1, 3, 64, 64]` | 0 | 2, does not compile | 2 | 3 | – | 2 | yes |" in text
    )
    assert "| unet | 0 B | 2.0 KiB | 4.0 KiB | – | 1.0 KiB |" in text
    assert "| unet | 2 (1.0 KiB) | raises ValueError |" in text
    assert "| unet | 0 | 2, does not compile | – | 2 | 0.2 | 0.5 | not run |" in text
    assert ahead(_row(left))
    assert not ahead(_row(left, convert_layout=1)) and not ahead(_row(left, onnx_runtime=1))
    assert not ahead(_row("raises ValueError"))
    assert not Left(Conversions(2, 1024), "optimal", 2048.0, 1024.0, 0.25).optimal


@pytest.mark.parametrize(("name", "most"), [("nhwc_import", 0), ("mixed", 3)])
def test_planned_models_have_fewer_conversions_and_compute_the_same(name: str, most: int) -> None:
    lowered = relax.transform.LegalizeOps()(nets.module(name))
    left = plan(lowered, NHWC, "tir", Expected(lowered, nets.inputs(name)))
    assert isinstance(left, Left), left
    assert left.optimal and left.conversions.number <= most
    assert left.outputs == "bit-equal" or float(left.outputs.removeprefix("within ")) < 1e-5
