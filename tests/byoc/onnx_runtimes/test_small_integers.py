"""Integers of 8 bits wrap around; OpenVINO, which keeps them in their range, gets none that may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from tvm import relax

import opinfo
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile_file import FileRefused

from .wide_cases import BOOL, in_openvino, model, op, oracle

pytestmark = [
    pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO"),
    pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime"),
]
INTEGERS = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32}
TWO = ("Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "Equal", "Less")


def _numbers(dtype: str) -> dict[str, Any]:
    """All pairs of numbers at the ends of a range and around 0."""
    ends = np.iinfo(dtype)
    some = np.array([ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1, 100], dtype)
    return {"a": np.repeat(some, len(some)), "b": np.tile(some, len(some))}


def _file(name: str, dtype: str) -> tuple[Any, dict[str, Any]]:
    """The file of one operator, and its inputs."""
    values = _numbers(dtype)
    names = ["a", "b"] if name in (*TWO, "BitShift") else ["a"]
    attrs = {"direction": "LEFT"} if name == "BitShift" else {}
    kind = BOOL if name in ("Equal", "Less") else INTEGERS[dtype]
    shapes = {n: (INTEGERS[dtype], values[n].shape) for n in names}
    file = model([op(name, names, "y", **attrs)], shapes, {"y": (kind, values["a"].shape)}, {})
    return file, {n: values[n] for n in names}


WRAPPING = [(n, d) for n in ("Add", "Sub", "Mul") for d in ("int8", "uint8")]


@pytest.mark.parametrize(
    ("name", "dtype"), [*WRAPPING, ("Neg", "int8"), ("Abs", "int8"), ("BitShift", "uint8")]
)
def test_what_may_leave_its_range_is_refused(name: str, dtype: str, tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match=f"of {dtype}, which OpenVINO keeps in its range"):
        in_openvino(_file(name, dtype)[0], tmp_path)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("Max", "int8"), ("BitwiseAnd", "int8"), ("Less", "uint8"), ("Add", "int32")],
)
def test_what_does_not_is_computed(name: str, dtype: str, tmp_path: Path) -> None:
    file, values = _file(name, dtype)
    got = in_openvino(file, tmp_path).run(*values.values())
    np.testing.assert_array_equal(got, oracle(file, values))


def _through(dtype: str, kind: int, *between: Any) -> tuple[Any, dict[str, Any]]:
    """A file that casts numbers to another dtype, computes there, and returns floats."""
    values = {"a": np.arange(0, 250, 20).astype(dtype)}
    nodes = [
        op("Cast", ["a"], "b", to=kind),
        *between,
        op("Cast", ["c"], "y", to=TensorProto.FLOAT),
    ]
    shapes = {"a": (INTEGERS[dtype], values["a"].shape)}
    return model(nodes, shapes, {"y": (TensorProto.FLOAT, values["a"].shape)}, {}), values


SAME, NOT = op("Identity", ["b"], "c"), op("BitwiseNot", ["b"], "c")


@pytest.mark.parametrize(
    ("dtype", "kind", "between"),
    [("int32", "UINT16", SAME), ("int32", "INT16", SAME), ("uint8", "UINT16", NOT)],
)
def test_casts_that_may_wrap_around_are_refused(
    dtype: str, kind: str, between: Any, tmp_path: Path
) -> None:
    """OpenVINO has -200 for 65336, and -1 for 65535: inside of a file, uint16 is int32."""
    file = _through(dtype, getattr(TensorProto, kind), between)[0]
    with pytest.raises(FileRefused, match=f"of {kind.lower()}, which OpenVINO keeps in its range"):
        in_openvino(file, tmp_path)


@pytest.mark.parametrize(("kind", "between"), [("UINT16", SAME), ("INT16", NOT)])
def test_casts_to_more_bits_are_computed(kind: str, between: Any, tmp_path: Path) -> None:
    file, values = _through("uint8", getattr(TensorProto, kind), between)
    got = in_openvino(file, tmp_path).run(*values.values())
    np.testing.assert_array_equal(got, oracle(file, values))


def test_a_relu_of_wide_numbers_is_refused(tmp_path: Path) -> None:
    """OpenVINO rounds it to float32: of 2^31 - 1, it is -2^31."""
    with pytest.raises(FileRefused, match="rounds beyond"):
        in_openvino(_file("Relu", "int32")[0], tmp_path)


@pytest.mark.parametrize("name", ["abs", "negative"])
def test_a_region_wraps_around(name: str) -> None:
    x = relax.Var("x", relax.TensorType((4, 64), "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(getattr(relax.op, name)(x))
            out = builder.emit_output(builder.emit(relax.op.astype(y, "float32")))
        builder.emit_func_output(out)
    numbers = np.arange(-128, 128, dtype="int16").astype("int8").reshape(4, 64)
    expected = {"abs": np.abs, "negative": np.negative}[name](numbers)
    assert expected[0, 0] == -128
    compiled = opinfo.compile(builder.get(), ["openvino"])
    np.testing.assert_array_equal(compiled.run(numbers), expected)


def _product(depth: int, cast: bool) -> tuple[Any, dict[str, Any]]:
    """A product of 8-bit numbers whose sums are as large as they may be."""
    values = {"a": np.full((2, depth), 255, "uint8"), "b": np.full((depth, 3), -127, "int8")}
    values["a"][:, 0], values["b"][1] = 254, -3
    nodes = [op("MatMulInteger", ["a", "b"], "s" if cast else "y")]
    nodes += [op("Cast", ["s"], "y", to=TensorProto.FLOAT)] if cast else []
    shapes = {n: (INTEGERS[str(v.dtype)], v.shape) for n, v in values.items()}
    kind = TensorProto.FLOAT if cast else INTEGERS["int32"]
    return model(nodes, shapes, {"y": (kind, (2, 3))}, {}), values


def _sums(values: dict[str, Any]) -> Any:
    """The product in 64 bits; ONNX Runtime's saturates on CPUs without VNNI."""
    return values["a"].astype("int64") @ values["b"].astype("int64")


def test_long_sums_of_integers_are_refused(tmp_path: Path) -> None:
    """OpenVINO has -132646944 for -132648960: it adds in float32."""
    with pytest.raises(FileRefused, match="sums up integers to 1"):
        in_openvino(_product(4096, False)[0], tmp_path)


def test_short_sums_of_integers_are_exact(tmp_path: Path) -> None:
    file, values = _product(500, False)
    got = in_openvino(file, tmp_path).run(*values.values())
    np.testing.assert_array_equal(got, _sums(values))


def test_long_sums_that_become_floats_are_rounded(tmp_path: Path) -> None:
    file, values = _product(4096, True)
    got = in_openvino(file, tmp_path).run(*values.values())
    np.testing.assert_allclose(got, _sums(values), rtol=1e-4)


def test_a_product_that_may_wrap_around_is_refused(tmp_path: Path) -> None:
    nodes = [op("MatMul", ["a", "b"], "s"), op("Cast", ["s"], "y", to=TensorProto.FLOAT)]
    shapes = {n: (INTEGERS["int32"], (2, 2)) for n in "ab"}
    file = model(nodes, shapes, {"y": (TensorProto.FLOAT, (2, 2))}, {})
    with pytest.raises(FileRefused, match="sums up integers"):
        in_openvino(file, tmp_path)
