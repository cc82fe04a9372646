"""The zoo: its split, its inputs, the comparison of outputs, and its pages."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import benchmarks.zoo.__main__ as zoo
from benchmarks.zoo import torch_reference
from benchmarks.zoo.differences import difference, tolerance, verdict
from benchmarks.zoo.models.last_models import LAST
from benchmarks.zoo.models.later_files import LATER
from benchmarks.zoo.models.model_files import FILES
from benchmarks.zoo.models.proxies import PROXIES
from benchmarks.zoo.models.subject import Subject, names, subject
from benchmarks.zoo.reading import reference
from benchmarks.zoo.reference_error import moved, spread
from benchmarks.zoo.split import is_open, part


def test_the_zoo_is_large_and_half_of_it_is_held_out() -> None:
    sources = {file.wheel.partition("==")[0] for file in FILES.values()}
    assert len(FILES) >= 40 and len(sources) >= 15
    open_half = [name for name in names() if is_open(name)]
    assert 0.4 <= len(open_half) / len(names()) <= 0.6


def test_proxies_are_in_neither_half(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROXIES.keys().isdisjoint(names())
    rows = {name: {"name": name} for name in ("papers/gin", "proxies/encoder")}
    assert list(zoo._of_the_zoo(rows)) == ["papers/gin"]
    for words, expected in ((["--proxies"], PROXIES), (["--all"], names())):
        monkeypatch.setattr(sys, "argv", ["zoo", *words])
        assert list(zoo._chosen(zoo._options())) == list(expected)


def test_a_proxy_is_quantized(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = subject("proxies/tagger_dynamic", tmp_path)
    nodes = {node.op_type for node in onnx.load(found.path).graph.node}
    assert "DynamicQuantizeLSTM" in nodes and found.inputs[0]["ids"].shape == (1, 32)


def test_references_do_not_saturate(tmp_path: Path) -> None:
    # Without VNNI the runtime adds pairs of products in int16: 2 * 255 * 127 does not fit.
    weights = numpy_helper.from_array(np.full((64, 16), 127, "int8"), "w")
    info = [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [4, 64]),
            helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [4, 16])]  # fmt: skip
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", info[:1], info[1:], [weights])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    inputs = {"x": np.full((4, 64), 255, "uint8")}
    (got,) = reference(Subject("m", tmp_path / "m.onnx", (inputs,)), inputs)
    assert (got == 64 * 255 * 127).all()


def test_the_split_is_fixed() -> None:
    # The first bytes of their SHA-256 are 0xa8 and 0x71: printf '%s' NAME | sha256sum
    assert is_open("basic-pitch/nmp") and not is_open("nudenet/320n")


def test_later_models_are_in_neither_half() -> None:
    assert len(LATER) == 43 and not LATER & {*names()}
    assert {part(name) for name in LATER} == {"later"}


def test_the_last_models_are_in_no_other_set() -> None:
    assert len(LAST) == 12 and not LAST & {*names(), *LATER}
    assert {part(name) for name in LAST} == {"last"}


@pytest.mark.parametrize("name", FILES)
def test_symbolic_models_have_shapes_of_the_same_inputs(name: str) -> None:
    first, *others = FILES[name].shapes
    for shapes in others:
        assert shapes.keys() == first.keys()
        assert [len(dims) for dims in shapes.values()] == [len(dims) for dims in first.values()]
    assert FILES[name].fills.keys() <= first.keys()


def test_differences_are_relative_to_the_largest_value_of_an_output() -> None:
    a = np.array([1.0, -200.0], "float32")
    assert difference([a], [a]) == 0
    assert difference([a], [a + np.array([0, 2], "float32")]) == pytest.approx(0.01)
    assert difference([a, np.ones(1)], [a, np.full(1, 1.5)]) == pytest.approx(0.5)


@pytest.mark.parametrize("wrong", [
    [], [np.zeros((2, 1))], [np.array([0.0, np.nan])], [np.array([np.inf, 1.0])],
])  # fmt: skip
def test_other_shapes_and_values_that_are_not_finite_differ(wrong: list[np.ndarray]) -> None:
    assert difference([np.array([0.0, 1.0])], wrong) == math.inf


def test_the_same_infinities_do_not_differ() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 3.0])
    assert difference([values], [values.copy()]) == 0


def test_half_types_have_two_roundings_of_tolerance() -> None:
    single, half = np.ones(2, "float32"), np.ones(2, "float16")
    assert tolerance([single]) == 1e-4
    assert tolerance([single, half]) == 2 * 2.0**-11


@pytest.mark.parametrize("row, expected", [
    ({"differences": [9e-5], "spread": 0.0}, "right"),
    ({"differences": [9e-5, 2e-4], "spread": 0.0}, "wrong"),
    ({"differences": [9e-4], "spread": 0.0, "tolerance": 9.8e-4}, "right"),
    ({"differences": [9e-4], "spread": 5e-4}, "rounding"),
    ({"differences": [9e-4], "spread": 1e-5, "to_second": [9e-5]}, "right"),
    ({"differences": [9e-4, 1e-5], "spread": 1e-5, "to_second": [9e-5, 9e-4]}, "right"),
    ({"differences": [9e-4, 9e-4], "spread": 1e-5, "to_second": [9e-5, 2e-4]}, "wrong"),
    ({"differences": [9e-4, 9e-4], "spread": 1e-5, "to_second": [9e-5]}, "wrong"),
    # The runtimes differ by more, and the outputs are near neither.
    ({"differences": [9e-4], "spread": 1e-5, "second": 5e-3, "to_second": [4e-3]}, "wrong"),
    ({"differences": [9e-4], "spread": math.inf}, "wrong"),
    ({"differences": [], "spread": 1.0}, "wrong"),
    ({"differences": [9e-5], "spread": 0.0, "failure": "no kernel"}, "wrong"),
])  # fmt: skip
def test_a_row_is_right_if_it_is_near_one_runtime(row: Any, expected: str) -> None:
    assert verdict({"failure": "", **row}) == expected


def _weighted() -> Any:
    """A model with weights as initialisers, of half types, in Constant nodes and in branches."""
    constant = numpy_helper.from_array(np.full(9, 3.0, "float32"), "c")
    inner = helper.make_graph([helper.make_node("Constant", [], ["r"], value=constant)], "g", [],
                              [helper.make_empty_tensor_value_info("r")])  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("Pow", ["x", "exponent"], ["p"]),
        helper.make_node("If", ["b"], ["i"], then_branch=inner, else_branch=inner),
    ]
    weights = {"exponent": np.full(1, 2.0, "float32"), "w": np.full(9, 3.0, "float32"),
               "h": np.full(9, 3.0, "float16"), "n": np.full(2, 3)}  # fmt: skip
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_model(helper.make_graph(nodes, "net", [], [], tensors))


def test_weights_are_moved_by_a_few_roundings_and_exponents_are_not() -> None:
    graph = moved(_weighted(), 0).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    arrays["constant"] = numpy_helper.to_array(graph.node[0].attribute[0].t)
    arrays["branch"] = numpy_helper.to_array(graph.node[2].attribute[0].g.node[0].attribute[0].t)
    assert arrays["exponent"] == 2 and (arrays["n"] == 3).all()
    for name, most in {"w": 3e-6, "constant": 3e-6, "branch": 3e-6, "h": 3e-2}.items():
        relative = np.abs(arrays[name].astype("float64") / 3 - 1)
        assert 0 < relative.max() < most, name
    again = {t.name: numpy_helper.to_array(t) for t in moved(_weighted(), 1).graph.initializer}
    assert (again["w"] != arrays["w"]).any()


def test_moved_masks_stay_finite() -> None:
    least = np.array([np.finfo("float32").min, -np.inf, np.finfo("float32").max], "float32")
    tensor = numpy_helper.from_array(np.repeat(least, 50), "mask")
    graph = helper.make_graph([], "net", [], [], [tensor])
    (found,) = moved(helper.make_model(graph), 0).graph.initializer
    values = numpy_helper.to_array(found).reshape(3, 50)
    assert np.isfinite(values[[0, 2]]).all() and np.isneginf(values[1]).all()
    assert (values[0] != least[0]).any()


def test_an_error_of_the_runtime_is_reported(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info("x", 1, [2, "n"])
    weight = numpy_helper.from_array(np.ones((3, 2), "float32"), "w")
    graph = helper.make_graph([node], "net", [value], [helper.make_empty_tensor_value_info("y")],
                              [weight])  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    fits, other = ({"x": np.ones((2, size), "float32")} for size in (3, 4))
    size, unknown = spread(Subject("m", tmp_path / "m.onnx", (fits,)))
    assert 0 < size < 1e-5 and not unknown
    size, unknown = spread(Subject("m", tmp_path / "m.onnx", (other,)))
    assert size == 0 and unknown.startswith("spread: ") and "MatMul" in unknown
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_torch_module_that_magnifies_differences_has_a_large_spread() -> None:
    """The difference of two nearly equal sums is all rounding; one sum is not."""
    torch = pytest.importorskip("torch")
    apart = torch.nn.Linear(64, 2, bias=False)
    apart.weight.data[1] = apart.weight.data[0]
    minus = torch.nn.Linear(2, 1, bias=False)
    minus.weight.data[:] = torch.tensor([[1.0, -1.0 + 1e-6]])
    inputs = ({"input": np.ones((1, 64), "float32")},)
    assert 0 < torch_reference.spread(apart, inputs) < 1e-5
    before = [p.clone() for p in apart.parameters()]
    assert torch_reference.spread(torch.nn.Sequential(apart, minus), inputs) > 0.05
    assert all(map(torch.equal, before, apart.parameters()))
