"""Scans agree with ONNX Runtime for every direction and axis, unrolled or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import opinfo
from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, floats, model

make = helper.make_node
WEIGHTS: dict[str, Array] = {"w": floats(4, 4), "h": floats(1, 4, seed=1)}


def _body(nodes: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(list(nodes), "body", typed, results)


#: A state and an element give the next state; `w` is read from outside.
STEP = [make("MatMul", ["state", "w"], ["p"]), make("Add", ["p", "row"], ["q"]),
        make("Tanh", ["q"], ["next"]), make("Neg", ["next"], ["out"])]  # fmt: skip


def _scan(steps: Any, x: Sequence[Any], **options: Any) -> Any:
    node = make("Scan", ["h", "x"], ["last", "y"], num_scan_inputs=1, name="steps",
                body=_body(STEP, ["state", "row"], ["next", "out"]), **options)  # fmt: skip
    return model([node], {"x": (x, "float32")}, ["y", "last"], WEIGHTS)


def test_a_scan_over_a_symbolic_number_of_elements() -> None:
    proto = _scan("n", ["n", "b", 4])
    proto = model(
        [make("ReduceSum", ["x", "first"], ["s"], keepdims=0), make("Sub", ["s", "s"], ["h"]),
         proto.graph.node[0]],
        {"x": (["n", "b", 4], "float32")}, ["y", "last"],
        {"w": WEIGHTS["w"], "first": np.array([0])},
    )  # fmt: skip
    mod = compare(proto, *({"x": floats(n, b, 4, seed=n)} for n, b in ((1, 2), (7, 3), (40, 1))))
    assert str(mod["main"].ret_ty.fields[0].shape.values[0]) == "n"


@pytest.mark.part
@pytest.mark.parametrize("steps", ["n", 5])
@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes_and_directions(steps: Any, direction: int, axis: int) -> None:
    options = {"scan_input_axes": [1], "scan_input_directions": [direction],
               "scan_output_axes": [axis], "scan_output_directions": [1 - direction]}  # fmt: skip
    proto = _scan(steps, [1, steps, 4], **options)
    compare(proto, *({"x": floats(1, n, 4, seed=n)} for n in (5, *([1, 9] * (steps == "n")))))


def test_more_elements_than_are_unrolled() -> None:
    compare(_scan(300, [300, 1, 4]), {"x": floats(300, 1, 4)})


TWO = [make("Mul", ["a_k", "b_k"], ["t"]), make("Add", ["state", "t"], ["sum_"]),
       make("Identity", ["sum_"], ["step_0"])]  # fmt: skip


def _two(a: Any, b: Any) -> Any:
    node = make("Scan", ["h", "a", "b"], ["last", "y"], num_scan_inputs=2, name="pairs",
                body=_body(TWO, ["state", "a_k", "b_k"], ["sum_", "step_0"]))  # fmt: skip
    return model([node], {"a": ([a, 1, 4], "float32"), "b": ([b, 1, 4], "float32")},
                 ["y", "last"], {"h": WEIGHTS["h"]})  # fmt: skip


def test_two_sequences_whose_body_uses_the_names_of_the_loop() -> None:
    for n in ("n", 3):
        compare(_two(n, n), {"a": floats(3, 1, 4), "b": floats(3, 1, 4, seed=2)})


def test_sequences_of_several_lengths_fail() -> None:
    with pytest.raises(FrontendError, match=r"node 'pairs' \(Scan\): expected a size of 3, got 4"):
        from_model(_two(3, 4), {})
    compiled = opinfo.compile(from_model(_two("n", "m"), {}), [])
    with pytest.raises(ValueError, match="got n = 3, m = 4; the model is only defined for m == n"):
        compiled.run(floats(3, 1, 4), floats(4, 1, 4))


def test_scans_of_batches_are_refused() -> None:
    proto = _scan(3, [3, 1, 4])
    proto.opset_import[0].version = 8
    proto.graph.node[0].input[:] = ["", "h", "x"]
    with pytest.raises(FrontendError, match=r"node 'steps' \(Scan\): a batch of sequences"):
        from_model(proto, {})
