"""Remainders of floats are exact; OpenVINO subtracts a rounded quotient times the divisor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile_file import FileRefused

from .wide_cases import F32, in_openvino, model, op

X = np.array([1e6, -1e6, 1e38, 0.3, 5.0, 7.5, -7.5, 123456.7] * 8, "float32")
Y = np.array([0.7, 0.3, 3.0, 0.1, 3.0, -2.0, 2.0, 0.01] * 8, "float32")


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_a_remainder_is_exact(backend: str) -> None:
    if reason := find(backend).available():
        pytest.skip(reason)
    x, y = (relax.Var(n, relax.TensorType((64,), "float32")) for n in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.mod(x, y)))
        builder.emit_func_output(out)
    got = opinfo.compile(builder.get(), [backend]).run(X, Y)
    np.testing.assert_array_equal(got, np.fmod(X, Y))


@pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO")
def test_a_file_with_a_remainder_is_refused(tmp_path: Path) -> None:
    tensor = (F32, [64])
    file = model([op("Mod", ["x", "y"], "z", fmod=1)], {"x": tensor, "y": tensor},
                 {"z": tensor}, {})  # fmt: skip
    with pytest.raises(FileRefused, match="remainders of floats"):
        in_openvino(file, tmp_path)
