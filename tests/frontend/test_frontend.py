"""Loading model files: shapes, symbolic dimensions, and one-line errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.frontend import parse_shape
from tests.common.run import run
from tests.models import light, ocr, transformer

SQUEEZENET = light.path("squeezenet")


def _shape(mod: tvm.IRModule, place: int = 0) -> list[int | str]:
    dims = mod["main"].params[place].ty.shape.values
    return [d.value if isinstance(d, tirx.IntImm) else d.name for d in dims]


def test_static_onnx() -> None:
    assert _shape(opinfo.load(SQUEEZENET)) == [1, 3, 224, 224]


def test_onnx_shapes_make_a_dynamic_model_static() -> None:
    mod = opinfo.load(ocr.path("ocr_cls"), {"x": (1, 3, 48, 192)})
    assert _shape(mod) == [1, 3, 48, 192]
    assert mod["main"].ret_ty.shape.values[1] == 2


def test_onnx_dimension_stays_symbolic() -> None:
    mod = opinfo.load(ocr.path("ocr_det"), {"x": ("n", 3, 64, 64)})
    assert _shape(mod) == ["n", 3, 64, 64]
    out = mod["main"].ret_ty.shape.values
    assert str(out[0]) == "n" and [d.value for d in out[1:]] == [1, 64, 64]


def test_onnx_dimensions_of_a_detector_stay_symbolic() -> None:
    dims = _shape(opinfo.load(ocr.path("ocr_det")))
    assert dims[1] == 3 and len({dims[0], dims[2], dims[3]}) == 3
    assert all(isinstance(dims[k], str) for k in (0, 2, 3))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    path = tmp_path_factory.mktemp("torch") / "gpt2.pt2"
    torch.export.save(transformer.program("gpt2", symbolic=True), path)
    return path


def test_torch_program_keeps_its_symbolic_batch(program: Path) -> None:
    first, length = _shape(opinfo.load(program))
    assert isinstance(first, str) and length == transformer.LENGTH


def test_torch_program_with_outputs_of_hugging_face_loads_in_a_fresh_process(program: Path) -> None:
    code = f"import opinfo; print(len(opinfo.load({str(program)!r})['main'].params))"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert got.stdout.strip() == "1", got.stderr


def test_torch_batch_can_be_bound(program: Path) -> None:
    mod = opinfo.load(program, {"input_ids": (3, transformer.LENGTH)})
    assert _shape(mod) == [3, transformer.LENGTH]


def test_json_round_trip(tmp_path: Path) -> None:
    mod = opinfo.load(SQUEEZENET)
    path = tmp_path / "module.json"
    path.write_text(tvm.ir.save_json(mod))
    tvm.ir.assert_structural_equal(opinfo.load(path), mod)


def test_json_of_one_function(tmp_path: Path) -> None:
    lowered = relax.transform.LegalizeOps()(opinfo.load(SQUEEZENET))
    path = tmp_path / "conv2d.json"
    path.write_text(tvm.ir.save_json(lowered["conv2d"]))
    (func,) = opinfo.load(path).functions.values()
    assert isinstance(func, tirx.PrimFunc)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.txt", b"", "expected a suffix of .onnx, .pt2, .json, .py, got '.txt'"),
        ("m", b"", "expected a suffix of .onnx, .pt2, .json, .py, got none"),
        ("m.pth", b"", "got '.pth'; export the module with torch.export, and save it as .pt2"),
        ("m.tflite", b"", "got '.tflite'; convert it to ONNX"),
        ("m.onnx", b"\x00\x01garbage", "not an ONNX model"),
        ("m.onnx", b"", "its graph is empty"),
        ("m.pt2", b"not a zip", "not a torch.export program"),
        ("m.json", b"{", "not a module of tvm.ir.save_json"),
        ("m.json", b"{}", "root_index"),
        ("m.json", b"[" * 100_000, "not a module of tvm.ir.save_json"),
        ("m.json", b"[]", "not a module of tvm.ir.save_json"),
        ("m.json", b'{"root_index":0,"nodes":[{"type":"int","data":3}]}', "contains int"),
        (
            "m.json",
            b'{"root_index":0,"nodes":[{"type":"ffi.Module","data":""}]}',
            "not a type of IR",
        ),
        ("m.py", b"\xff\xfe", "not UTF-8"),
        ("m.py", b"def f(:", "not Python text"),
        ("m.py", b"", "no @I.ir_module"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(opinfo.FrontendError) as error:
        opinfo.load(path)
    assert message in str(error.value)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("shapes", [[1, 3], {"data_0": 1}, {"data_0": "1,3"}, "data_0:1,3"])
def test_shapes_are_sequences_by_name(shapes: Any) -> None:
    with pytest.raises(TypeError, match="load: shapes: expected a shape by the name of an input"):
        opinfo.load(SQUEEZENET, shapes)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(opinfo.FrontendError, match="no such file"):
        opinfo.load(tmp_path / "absent.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(opinfo.FrontendError, match="is a folder"):
        opinfo.load(tmp_path / "folder.onnx")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"y": (1, 3, 224, 224)}, "unknown input 'y'; the model's inputs are: data_0"),
        ({"data_0": (1, 3)}, "has 4 dimensions (1,3,224,224), got 2"),
        (
            {"data_0": (1, 3, 224, 225)},
            "input 'data_0': dimension 3 is static, 224; got 225 "
            "(a name makes it symbolic: --shape data_0:1,3,224,n)",
        ),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int | str, ...]], message: str) -> None:
    with pytest.raises(opinfo.FrontendError) as error:
        opinfo.load(SQUEEZENET, shapes)
    assert message in str(error.value)


def test_contradicting_sizes_of_one_symbol(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "from tvm.script import relax as R\n@R.function\n"
        'def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):\n'
        "    return R.add(x, y)\n"
    )
    assert _shape(opinfo.load(path, {"x": (2, 4)}), 1) == [2, 4]
    with pytest.raises(opinfo.FrontendError, match="is 2 elsewhere, got 3"):
        opinfo.load(path, {"x": (2, 4), "y": (3, 4)})


@pytest.mark.parametrize("text", ["x", ":1,2", "x:1,-2", "x:1,,2", "x:0", "x:1.5"])
def test_malformed_shapes(text: str) -> None:
    with pytest.raises(opinfo.FrontendError, match="shape"):
        parse_shape(text)


def test_shape_names_may_hold_colons() -> None:
    assert parse_shape("a:0:1,n") == ("a:0", (1, "n"))
    assert parse_shape("x:?,3,48,?") == ("x", ("?", 3, 48, "?"))


@pytest.mark.parametrize("kept", ["?", None])
def test_a_question_mark_leaves_a_dimension_of_onnx_as_it_is(
    tmp_path: Path, kept: str | None
) -> None:
    import onnx
    from onnx import TensorProto, helper

    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in "xy"]
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", "m"])
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "net", rows, [out])
    opset = helper.make_opsetid("", 18)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    x, y = opinfo.load(path, {"x": (4, kept)})["main"].params
    assert x.ty.shape[0] == 4 and x.ty.shape[1].name == "m"
    assert x.ty.shape[1].same_as(y.ty.shape[1])


def test_a_question_mark_leaves_a_dimension_of_torch_as_it_is(program: Path) -> None:
    name = opinfo.load(program)["main"].params[0].name
    mod = opinfo.load(program, {name: ("?", 16)})
    assert isinstance(mod["main"].params[0].ty.shape[0], tvm.tirx.Var)
    assert _shape(mod, 0)[1] == 16


def test_negative_slice_axes_are_made_positive(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        "from tvm.script import relax as R\n@R.function\n"
        'def main(x: R.Tensor(("n", 6), "float32")):\n'
        "    return R.strided_slice(x, (-1,), (1,), (5,), (2,))\n"
    )
    data = np.arange(18, dtype="float32").reshape(3, 6)
    (got,) = run(opinfo.load(path), [data])
    np.testing.assert_array_equal(got, data[:, 1:5:2])


def _filled(path: Path) -> Path:
    """x · 2.5, the number as a fill of no axes: TVM's importer gives such a fill one."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    value = numpy_helper.from_array(np.array([2.5], "float32"))
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["number"], value=value),
             helper.make_node("Mul", ["x", "number"], ["y"])]  # fmt: skip
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    shape = numpy_helper.from_array(np.zeros(0, "int64"), "shape")
    graph = helper.make_graph(nodes, "filled", [x], [y], [shape])
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def test_a_fill_without_axes_is_folded(tmp_path: Path) -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    (got,) = run(opinfo.load(_filled(tmp_path / "m.onnx")), [data])
    np.testing.assert_array_equal(got, data * 2.5)


def _flattened(path: Path) -> Path:
    """x as rows: its first dimension is sliced off its shape, as Paddle's exporter writes it."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("Shape", ["x"], ["long"]),
             helper.make_node("Cast", ["long"], ["s"], to=TensorProto.INT32),
             helper.make_node("Slice", ["s", "zero", "one"], ["short"]),
             helper.make_node("Cast", ["short"], ["first"], to=TensorProto.INT64),
             helper.make_node("Concat", ["first", "rest"], ["t"], axis=0),
             helper.make_node("Reshape", ["x", "t"], ["y"])]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b", "c"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    numbers = [("zero", [0]), ("one", [1]), ("rest", [-1])]
    weights = [numpy_helper.from_array(np.array(v, "int64"), k) for k, v in numbers]
    graph = helper.make_graph(nodes, "flattened", [x], [y], weights)
    opset = helper.make_opsetid("", 13)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def test_shape_arithmetic_is_evaluated(tmp_path: Path) -> None:
    mod = opinfo.load(_flattened(tmp_path / "m.onnx"), {"x": ("n", 4, 3)})
    for n in (1, 3):
        data = np.arange(12 * n, dtype="float32").reshape(n, 4, 3)
        (got,) = run(mod, [data])
        np.testing.assert_array_equal(got, data.reshape(n, 12))
