"""ONNX files whose weights are written behind the fields of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opinfo.byoc.backends.onnx_models import weights
from opinfo.byoc.backends.onnx_models.weights import with_weights

FLOAT = onnx.TensorProto.FLOAT


def _sum(names: list[str]) -> Any:
    """A graph that adds weights to its input."""
    value = [helper.make_tensor_value_info(n, FLOAT, ["rows", "columns"]) for n in ("x", "y")]
    small = numpy_helper.from_array(np.float32(2.0), "small")
    node = helper.make_node("Sum", ["x", "small", *names], ["y"])
    return helper.make_graph([node], "g", value[:1], value[1:], [small])


def _frame() -> Any:
    model = helper.make_model(onnx.GraphProto(), opset_imports=[helper.make_opsetid("", 20)],
                              ir_version=9)  # fmt: skip
    model.ClearField("graph")
    return model


@pytest.mark.parametrize("columns", [1, 10, 16, 31, 32, 4095, 4096, 600_000])
def test_the_package_reads_the_same_weights(columns: int) -> None:
    rng = np.random.default_rng(columns)
    given = {
        "w": rng.standard_normal((1, columns)).astype("float32"),
        "turned": np.asfortranarray(rng.standard_normal((3, columns)).astype("float32")),
    }
    model = onnx.load_from_string(with_weights(_frame(), _sum(list(given)), given).tobytes())
    onnx.checker.check_model(model, full_check=True)
    read = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert list(read) == ["small", "w", "turned"]
    for name, array in given.items():
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int32", "int64", "bool",
                                   ">f4"])  # fmt: skip
def test_weights_keep_their_types_and_values(dtype: str) -> None:
    array = (np.arange(24) % 5).reshape(2, 3, 4).astype(dtype)
    read = onnx.load_from_string(with_weights(_frame(), _sum([]), {"w": array}).tobytes())
    w = numpy_helper.to_array(read.graph.initializer[1])
    assert w.dtype == array.dtype.newbyteorder("=") and w.shape == array.shape
    np.testing.assert_array_equal(w, array)


def test_a_runtime_reads_the_file() -> None:
    import onnxruntime

    w = np.random.default_rng(0).standard_normal((4, 5000)).astype("float32")
    file = with_weights(_frame(), _sum(["w"]), {"w": w}).tobytes()
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    x = np.ones((4, 5000), "float32")
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x + 2 + w, rtol=1e-6)


def test_a_file_that_no_runtime_could_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros(5000, "float32")
    size = with_weights(_frame(), _sum([]), {"w": array}).size
    monkeypatch.setattr(weights, "_MOST", size)
    assert with_weights(_frame(), _sum([]), {"w": array}).size == size
    monkeypatch.setattr(weights, "_MOST", size - 1)
    with pytest.raises(ValueError, match=f"an ONNX file of {size} bytes exceeds 2 GiB"):
        with_weights(_frame(), _sum([]), {"w": array})
