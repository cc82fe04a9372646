"""Outcomes of ONNX's operator tests: tolerances, constants, resumed runs and tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from onnx import helper, numpy_helper

from benchmarks.overall.onnx_suite.cases import MEANINGS, as_array, outcome, with_constants
from benchmarks.overall.operator_suites.array_differences import difference
from benchmarks.overall.operator_suites.outcomes import (
    CRASHED,
    REFUSED,
    RIGHT,
    STARTED,
    Outcome,
    append,
    general,
    read,
    tables,
)  # fmt: skip


def test_half_types_may_differ_by_two_roundings() -> None:
    expected = np.array([1.0, 2.0], "float16")
    step = np.array([2**-9, 0], "float16")
    assert difference(expected + step, expected) == ""
    assert difference(expected + 4 * step, expected).startswith("1 of 2 elements, first 1.00781")
    single = expected.astype("float32")
    assert difference(single + np.float32(2**-7), single) != ""
    assert difference(single + np.float32(2**-11), single, 1e-4) != ""


def test_shapes_dtypes_nan_and_integers_are_compared() -> None:
    nan = np.array([np.nan, 1], "float32")
    assert difference(nan, nan) == ""
    assert difference(nan, np.array([0, 1], "float32")) == "1 of 2 elements, first nan, expected 0"
    assert difference(nan[:1], nan) == "shape (1,), expected (2,)"
    assert difference(np.array([1]), np.array([1.0])) == "dtype int64, expected float64"
    assert difference(np.array([1, 2]), np.array([1, 3])) == "1 of 2 elements differ"


def test_numbers_and_tensors_of_onnx_are_arrays() -> None:
    """Losses and limits are numbers, operands of casts to few bits are `TensorProto`."""
    array = np.array([1, 2], "float32")
    assert isinstance(as_array(np.float32(2)), np.ndarray) and as_array(np.float32(2)) == 2
    np.testing.assert_array_equal(as_array(numpy_helper.from_array(array)), array)
    assert as_array([array])[0] is array


def test_a_refusal_by_compile_is_one() -> None:
    """Casts to float8 load, and are refused for CPUs by name."""
    entries = [
        helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("x", 1), ("y", 17))
    ]
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=17)], "g", *(
        [entry] for entry in entries))  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    one = np.ones(2, "float32")
    case = SimpleNamespace(name="a", model=model, data_sets=[([one], [one])], rtol=0, atol=0)
    got = outcome(case)
    assert got.verdict == REFUSED and "float8_e4m3fn" in got.reason


def test_inputs_become_constants() -> None:
    entries = [helper.make_tensor_value_info(name, 7, [1]) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g", entries,
                              [helper.make_tensor_value_info("y", 7, [1])])  # fmt: skip
    model = helper.make_model(graph)
    constant = with_constants(model, [np.array([1]), np.array([2])])
    assert [entry.name for entry in constant.graph.input] == ["a"]
    assert [tensor.name for tensor in constant.graph.initializer] == ["b"]
    assert len(model.graph.input) == 2 and with_constants(constant, [np.array([1])]) is None


def test_the_last_outcome_of_a_case_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read(path) == {}
    rows = [Outcome("a", STARTED), Outcome("a", CRASHED, "-8"), Outcome("b", STARTED)]
    for row in rows:
        append(path, row)
    assert read(path) == {"a": rows[1], "b": rows[2]}


def test_refusals_are_counted_by_reason() -> None:
    rows = [Outcome("a", RIGHT), Outcome("c", REFUSED, "the node of 'y' (Pad): 3 sizes, got 'x'"),
            Outcome("b", REFUSED, "the node of 'z' (Pad): 4 sizes, got 'w'"),
            Outcome("d", STARTED)]  # fmt: skip
    text = tables(rows, MEANINGS)
    assert general(rows[1].reason) == "Pad: N sizes, got '…'"
    assert "| Pad: N sizes, got '…' | 2 | b |" in text
    assert "| right | 1 |" in text and "| all | 3 |" in text
