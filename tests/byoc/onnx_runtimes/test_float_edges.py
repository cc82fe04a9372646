"""Floats that OpenVINO has wrong: NaN is not greater than a number, and is true; remainders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tvm import relax

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile_file import FileRefused

from .wide_cases import BOOL, F32, in_openvino, model, op

NUMBERS = np.array([np.nan, 0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-40] * 8, "float32")
COMPARED: dict[str, Any] = {
    "greater": np.greater, "greater_equal": np.greater_equal, "less": np.less,
    "less_equal": np.less_equal, "equal": np.equal,
}  # fmt: skip


def _of_pairs(results: Callable[[Any, Any], list[Any]]) -> Any:
    """Return a module that computes expressions of two float32 tensors of 64 elements."""
    x, y = (relax.Var(n, relax.TensorType((64,), "float32")) for n in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            values = [builder.emit(result) for result in results(x, y)]
            out = builder.emit_output(relax.Tuple(values))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_a_region_has_no_numbers_above_nan(backend: str) -> None:
    if reason := find(backend).available():
        pytest.skip(reason)
    mod = _of_pairs(lambda x, y: [
        *(getattr(relax.op, name)(x, y) for name in COMPARED), relax.op.astype(x, "bool"),
    ])  # fmt: skip
    compiled = opinfo.compile(mod, [backend])
    assert compiled.dispatched is not None and not compiled.dispatched.left
    pair = NUMBERS, np.repeat(NUMBERS[:8], 8)
    for got, expected in zip(compiled.run(*pair), COMPARED.values(), strict=False):
        np.testing.assert_array_equal(got, expected(*pair))
    np.testing.assert_array_equal(compiled.run(*pair)[-1], NUMBERS.astype(bool))


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
@pytest.mark.parametrize("node", [
    op("Greater", ["x", "y"], "z"), op("GreaterOrEqual", ["x", "y"], "z"),
    op("Cast", ["x"], "z", to=BOOL),
])  # fmt: skip
def test_a_file_that_asks_for_it_is_refused(node: Any, tmp_path: Path) -> None:
    shapes = {n: (F32, [64]) for n in node.input}
    with pytest.raises(FileRefused, match="may be NaN"):
        in_openvino(model([node], shapes, {"z": (TensorProto.BOOL, [64])}, {}), tmp_path)


#: Remainders are exact; OpenVINO subtracts a rounded quotient times the divisor.
X = np.array([1e6, -1e6, 1e38, 0.3, 5.0, 7.5, -7.5, 123456.7] * 8, "float32")
Y = np.array([0.7, 0.3, 3.0, 0.1, 3.0, -2.0, 2.0, 0.01] * 8, "float32")


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_a_remainder_is_exact(backend: str) -> None:
    if reason := find(backend).available():
        pytest.skip(reason)
    mod = _of_pairs(lambda x, y: [relax.op.mod(x, y)])
    (got,) = opinfo.compile(mod, [backend]).run(X, Y)
    np.testing.assert_array_equal(got, np.fmod(X, Y))


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_a_file_with_a_remainder_is_refused(tmp_path: Path) -> None:
    tensor = (F32, [64])
    file = model([op("Mod", ["x", "y"], "z", fmod=1)], {"x": tensor, "y": tensor},
                 {"z": tensor}, {})  # fmt: skip
    with pytest.raises(FileRefused, match="remainders of floats"):
        in_openvino(file, tmp_path)


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_the_minimum_of_infinities_is_infinite(tmp_path: Path) -> None:
    node = op("ReduceMin", ["x", "axes"], "z", keepdims=0)
    axes = {"axes": np.array([1], "int64")}
    made = model([node], {"x": (F32, [2, 3])}, {"z": (F32, [2])}, axes)
    path = tmp_path / "minimum.onnx"
    path.write_bytes(made.SerializeToString())
    data = np.array([[np.inf, np.inf, np.inf], [np.inf, 2.0, -np.inf]], "float32")
    result = opinfo.compile(path, ["openvino"]).run(data)
    np.testing.assert_array_equal(np.asarray(result), [np.inf, -np.inf])


@pytest.mark.parametrize("shape", [(4, 8, 16), (2, 4, 8, 16)], ids=str)
@pytest.mark.parametrize("backend", ["onednn", "onnxruntime", "openvino"])
def test_the_maximum_of_whole_rows_of_minus_infinity_is_minus_infinity(
    tmp_path: Path, backend: str, shape: tuple[int, ...]
) -> None:
    result = (*shape[:-1], 1)
    nodes = [op("Neg", ["x"], "y"), op("ReduceMax", ["y", "axes"], "z", keepdims=1)]
    axes = {"axes": np.array([len(shape) - 1], "int64")}
    made = model(nodes, {"x": (F32, list(shape))}, {"z": (F32, list(result))}, axes)
    path = tmp_path / "maximum.onnx"
    path.write_bytes(made.SerializeToString())
    data, expected = np.full(shape, np.inf, "float32"), np.full(result, -np.inf, "float32")
    data.flat[3], expected.flat[0] = -2.0, 2.0
    compiled = opinfo.compile(path, [backend])
    if not find(backend).available():  # which says why not
        assert compiled.dispatched is not None
        assert any("relax.negative" in region.ops for region in compiled.dispatched.taken)
    np.testing.assert_array_equal(np.reshape(compiled.run(data), result), expected)
