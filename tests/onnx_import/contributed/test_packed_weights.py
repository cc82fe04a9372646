"""Products and rows of matrices of few bits, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, floats, model, outputs, reference

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

COLUMNS = 6


def weights(bits: int, block: int, depth: int, points: str = "") -> dict[str, Array]:
    """Return the bytes, scales and zero points of a matrix by output and input."""
    rng = np.random.default_rng(bits + depth)
    blocks, per = -(-depth // block), 8 // bits
    arrays: dict[str, Array] = {
        "data": rng.integers(0, 256, (COLUMNS, blocks, block // per), "uint8"),
        "scales": rng.uniform(0.01, 0.1, (COLUMNS, blocks)).astype("float32"),
    }
    if points == "packed":
        arrays["points"] = rng.integers(0, 256, (COLUMNS, -(-blocks // per)), "uint8")
    elif points:
        arrays["points"] = rng.uniform(0, 9, (COLUMNS, blocks)).astype("float32")
    return arrays


def product(bits: int, block: int, depth: int, arrays: dict[str, Array], **attrs: Any) -> Any:
    names = ["x", "data", "scales", "points" if "points" in arrays else "", "",
             "bias" if "bias" in arrays else ""]  # fmt: skip
    while not names[-1]:
        names.pop()
    return helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", K=depth, N=COLUMNS,
                            bits=bits, block_size=block, name="packed", **attrs)  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "block", "depth", "points"),
    [(4, 32, 96, ""), (4, 16, 40, "packed"), (8, 32, 64, "packed"), (8, 16, 40, ""),
     (4, 16, 48, "floats"), (2, 32, 64, "")],
)  # fmt: skip
def test_products(bits: int, block: int, depth: int, points: str) -> None:
    arrays = weights(bits, block, depth, points) | {"bias": floats(COLUMNS, seed=4)}
    proto = model([product(bits, block, depth, arrays)], {"x": (["b", "n", depth], "float32")},
                  weights=arrays)  # fmt: skip
    compare(proto, {"x": floats(2, 3, depth)}, {"x": floats(1, 1, depth, seed=1)}, tolerance=2e-5)


def test_products_of_halves() -> None:
    arrays = weights(4, 32, 64)
    halves = arrays | {"scales": arrays["scales"].astype("float16")}
    node, x = product(4, 32, 64, arrays), floats(3, 64).astype("float16")
    wide = arrays | {"scales": halves["scales"].astype("float32")}
    expected = reference(model([node], {"x": (["n", 64], "float32")}, weights=wide),
                         {"x": x.astype("float32")})[0]  # fmt: skip
    got = outputs(model([node], {"x": (["n", 64], "float16")}, weights=halves), {"x": x})[0]
    assert got.dtype == np.float16
    np.testing.assert_allclose(
        got.astype("float32"), expected, rtol=0, atol=4e-3 * abs(expected).max()
    )


def test_weights_stay_packed() -> None:
    """A backend for weights of few bits takes the product."""
    arrays = weights(4, 32, 96)
    proto = model([product(4, 32, 96, arrays)], {"x": (["n", 96], "float32")}, weights=arrays)
    compiled = opinfo.compile(from_model(proto, {}), ["weight_only"])
    assert "weight_only" in compiled.report()
    x = floats(3, 96)
    expected = reference(proto, {"x": x})[0]
    result = compiled.run(x)
    got = np.from_dlpack(result[0] if isinstance(result, tuple) else result)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("kind", "bits"), [("uint8", 4), ("uint8", 8), ("uint4", 4), ("int4", 4)])
def test_rows(kind: str, bits: int) -> None:
    from onnx import TensorProto

    rng = np.random.default_rng(bits)
    numbers = rng.integers(0, 8, (9, 32)).astype("uint8")
    if kind == "uint8":
        data = helper.make_tensor("data", TensorProto.UINT8, [9, 32 * bits // 8],
                                  rng.integers(0, 256, 9 * 32 * bits // 8))  # fmt: skip
    else:
        data = helper.make_tensor("data", getattr(TensorProto, kind.upper()), [9, 32],
                                  numbers.reshape(-1))  # fmt: skip
    node = helper.make_node("GatherBlockQuantized", ["data", "ids", "scales"], ["y"],
                            domain="com.microsoft", block_size=16, quantize_axis=1,
                            **({"bits": bits} if kind == "uint8" else {}))  # fmt: skip
    scales = rng.uniform(0.1, 1, (9, 2)).astype("float32")
    proto = model([node], {"ids": (["b", "n"], "int64")}, weights={"scales": scales}, opset=21)
    proto.graph.initializer.append(data)
    proto.ir_version = 10
    compare(proto, {"ids": np.array([[0, 8, 3], [2, -1, -9]])})


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [({"bits": 3}, "bits is 3, expected one of 2, 4, 8"),
     ({"block_size": 24}, "block_size is 24, expected a power of 2 from 16 on"),
     ({"weight_prepacked": 1}, "'weight_prepacked' is 1, expected 0: export the model without it"),
     ({"K": 300}, "input 1 has the shape")],
)  # fmt: skip
def test_refusals(attrs: dict[str, Any], reason: str) -> None:
    arrays = weights(4, 32, 96)
    node = product(4, 32, 96, arrays)
    for name, value in attrs.items():
        for attribute in [a for a in node.attribute if a.name == name]:
            node.attribute.remove(attribute)
        node.attribute.append(helper.make_attribute(name, value))
    proto = model([node], {"x": (["n", 96], "float32")}, weights=arrays)
    with pytest.raises(FrontendError, match=f"packed.*{reason}"):
        from_model(proto, {})
