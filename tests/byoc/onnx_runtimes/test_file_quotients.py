"""ONNX Runtime gets no file that divides integers by what may be 0 or -1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile_file import FileRefused

from .wide_cases import in_runtime, model, op

pytestmark = pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime")
KINDS = {"int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", ["Div", "Mod"])
def test_a_divisor_that_is_data_is_refused(name: str, dtype: str, tmp_path: Path) -> None:
    """The least integer divided by -1 ended the process."""
    tensor = (KINDS[dtype], [4])
    file = model([op(name, ["a", "b"], "y")], {"a": tensor, "b": tensor}, {"y": tensor}, {})
    with pytest.raises(FileRefused, match="by what may be 0 or -1"):
        in_runtime(file, tmp_path, "onnxruntime")


@pytest.mark.parametrize("divisor", [2, [3, 4, 5, 6]])
def test_a_divisor_of_the_file_is_taken(divisor: object, tmp_path: Path) -> None:
    tensor = (KINDS["int32"], [4])
    constants = {"b": np.array(divisor, "int32")}
    file = model([op("Div", ["a", "b"], "y")], {"a": tensor}, {"y": tensor}, constants)
    a = np.array([7, -7, 2**31 - 1, -(2**31)], "int32")
    expected = np.trunc(a.astype("float64") / constants["b"]).astype("int32")
    got = in_runtime(file, tmp_path, "onnxruntime").run(a)
    np.testing.assert_array_equal(got, expected)
