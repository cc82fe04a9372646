"""A branch that cannot run with the given sizes fails when it is taken; the other one works."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import opinfo
from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import Inputs, floats, model

make = helper.make_node
WEIGHTS: dict[str, Array] = {"a": floats(4, 3), "b": floats(5, 3)}
INPUTS: Inputs = {"x": (["n", 4], "float32"), "flag": ([], "bool")}


def _branch(*nodes: Any) -> Any:
    return helper.make_graph(list(nodes), "body", [], [helper.make_empty_tensor_value_info("r")])


def _conditional(then: Any, otherwise: Any) -> Any:
    node = make("If", ["flag"], ["y"], then_branch=then, else_branch=otherwise)
    return model([node], INPUTS, weights=WEIGHTS)


LEGAL = _branch(make("MatMul", ["x", "a"], ["r"], name="right"))
#: Sizes that do not fit: 4 columns times 5 rows.
ILLEGAL = _branch(make("Relu", ["x"], ["p"]), make("MatMul", ["p", "b"], ["r"], name="wrong"))


@pytest.mark.parametrize("first", [True, False])
def test_the_legal_branch_runs_and_the_other_fails(tmp_path: Path, first: bool) -> None:
    proto = _conditional(*((LEGAL, ILLEGAL) if first else (ILLEGAL, LEGAL)))
    onnx.save(proto, path := tmp_path / "m.onnx")
    with pytest.warns(UserWarning, match=r"m\.onnx: node 'wrong' \(MatMul\): .*a branch of a"):
        mod = opinfo.load(path)
    compiled = opinfo.compile(mod, race=False)
    for rows in (2, 3):
        got = compiled.run(floats(rows, 4), np.array(first))
        np.testing.assert_allclose(got, floats(rows, 4) @ WEIGHTS["a"], rtol=1e-5)
    with pytest.raises(Exception, match=r"node 'wrong' \(MatMul\)"):
        compiled.run(floats(2, 4), np.array(not first))


def test_sizes_that_only_the_legal_branch_defines() -> None:
    legal = _branch(make("Compress", ["x", "keep"], ["r"], axis=0))
    illegal = _branch(make("Reshape", ["x", "shape"], ["s"]), make("Add", ["x", "b"], ["r"]))
    proto = _conditional(legal, illegal)
    proto.graph.input.append(helper.make_tensor_value_info("keep", onnx.TensorProto.BOOL, [3]))
    shape = onnx.numpy_helper.from_array(np.array([2, 6]), "shape")
    proto.graph.initializer.append(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = opinfo.compile(from_model(proto, {"x": (3, 4)}), race=False)
    keep, data = np.array([True, False, True]), floats(3, 4)
    np.testing.assert_array_equal(compiled.run(data, np.array(True), keep), data[keep])
    with pytest.raises(Exception, match=r"\(Add\)"):
        compiled.run(data, np.array(False), keep)


def test_a_conditional_without_a_legal_branch_is_refused() -> None:
    with pytest.raises(FrontendError, match=r"node 'wrong' \(MatMul\): Incompatible dimensions"):
        from_model(_conditional(ILLEGAL, ILLEGAL), {})


def test_an_operator_that_is_not_supported_is_refused_in_a_branch() -> None:
    other = _branch(make("Multinomial", ["x"], ["r"], name="dice"))
    with pytest.raises(FrontendError, match=r"node 'dice' \(Multinomial\)"):
        from_model(_conditional(LEGAL, other), {})


def test_an_illegal_node_outside_a_conditional_is_refused() -> None:
    proto = model([make("MatMul", ["x", "b"], ["y"], name="wrong")], {"x": ([2, 4], "float32")},
                  weights=WEIGHTS)  # fmt: skip
    with pytest.raises(FrontendError, match=r"model: node 'wrong' \(MatMul\): Incompatible dim"):
        from_model(proto, {})


@pytest.mark.parametrize("op", ["LSTM", "Conv", "MaxPool", "Resize", "BatchNormalization"])
def test_a_wrong_rank_is_named(op: str) -> None:
    every: dict[str, tuple[dict[str, Array], dict[str, Any]]] = {
        "LSTM": ({"w": floats(1, 16, 4), "r": floats(1, 16, 4)}, {"hidden_size": 4}),
        "Conv": ({"w": floats(2, 4, 3, 3)}, {}),
        "MaxPool": ({}, {"kernel_shape": [2, 2]}),
        "Resize": ({"factors": np.ones(3, "float32")}, {}),
        "BatchNormalization": ({name: floats(4) for name in "sbmv"}, {}),
    }
    weights, attrs = every[op]
    more = ["", *weights] if op == "Resize" else list(weights)
    proto = model([make(op, ["x", *more], ["y"], name="n", **attrs)], {"x": (["k"], "float32")},
                  weights=weights)  # fmt: skip
    with pytest.raises(FrontendError, match=rf"node 'n' \({op}\): [^:]*$") as error:
        from_model(proto, {})
    assert "unpack" not in str(error.value) and "Error" not in str(error.value)
