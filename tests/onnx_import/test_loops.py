"""Loops that are not unrolled run as recursive functions, as often as ONNX Runtime's."""

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
from tests.onnx_import.against_runtime import Inputs, compare, floats, model

make = helper.make_node
INPUTS: Inputs = {"x": (["n", "b", 4], "float32")}
WEIGHTS: dict[str, Array] = {
    "w": floats(4, 4),
    "zero": np.array(0),
    "limit": np.array(3.0, "float32"),
}
#: The state starts as zeros of the batch's size; the loop runs once for each row of the input.
BEFORE = [
    make("Shape", ["x"], ["sizes"]),
    make("Gather", ["sizes", "zero"], ["n"]),
    make("ReduceSum", ["x", "first"], ["s"], keepdims=0),
    make("Sub", ["s", "s"], ["h"]),
]


def _body(nodes: Sequence[Any], outputs: Sequence[str]) -> Any:
    state = {"hid": TensorProto.FLOAT, "wt": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info("k", TensorProto.INT64, []),
              helper.make_tensor_value_info("go", TensorProto.BOOL, []),
              *(helper.make_tensor_value_info(n, t, None) for n, t in state.items())]  # fmt: skip
    infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
    return helper.make_graph(list(nodes), "body", inputs, infos)


STEP = [make("Gather", ["x", "k"], ["row"]), make("MatMul", ["hid", "wt"], ["p"]),
        make("Add", ["p", "row"], ["q"]), make("Tanh", ["q"], ["new"]),
        make("Identity", ["go"], ["on"])]  # fmt: skip
#: Goes on while the sum of the state's magnitudes is small.
UNTIL = [*STEP[:-1], make("ReduceL1", ["new"], ["norm"], keepdims=0),
         make("Less", ["norm", "limit"], ["on"])]  # fmt: skip
WEIGHTS["first"] = np.array([0])


def _loop(body: Sequence[Any], count: str = "n") -> Any:
    graph = _body(body, ["on", "new", "wt", "new"])
    node = make("Loop", [count, "", "h", "w"], ["last", "same", "rows"], body=graph, name="steps")
    after = make("Transpose", ["rows"], ["y"], perm=[1, 0, 2])
    return model([*BEFORE, node, after], INPUTS, ["y", "last"], WEIGHTS)


def test_a_recurrence_over_a_symbolic_number_of_steps() -> None:
    sizes = [(1, 2), (2, 1), (7, 3), (40, 1)]
    compare(_loop(STEP), *({"x": floats(n, b, 4, seed=n)} for n, b in sizes))


@pytest.mark.parametrize("count", ["n", ""])
def test_a_loop_that_ends_early(count: str) -> None:
    proto = _loop(UNTIL, count)
    compare(proto, *({"x": floats(30, b, 4, seed=b)} for b in (1, 2)))


def test_a_loop_of_thousands_of_steps_does_not_exhaust_the_stack() -> None:
    compiled = opinfo.compile(from_model(_loop(STEP), {}), race=False)
    rows, last = compiled.run(data := floats(6000, 1, 4))
    state = np.zeros((1, 4), "float32")
    for row in data:
        state = np.tanh(state @ WEIGHTS["w"] + row)
    np.testing.assert_allclose(last, state, atol=1e-4)
    np.testing.assert_allclose(rows[:, -1], state, atol=1e-4)


def test_a_state_that_grows_is_refused() -> None:
    body = [make("Concat", ["hid", "hid"], ["new"], axis=1), make("Identity", ["go"], ["on"])]
    with pytest.raises(FrontendError, match=r"node 'steps' \(Loop\): a loop whose number of iter"):
        from_model(_loop(body), {})
