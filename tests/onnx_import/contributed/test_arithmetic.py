"""Arithmetic of ONNX Runtime's own, compared with it, or with numpy where it has no CPU kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import (
    Inputs,
    compare,
    contributed,
    floats,
    model,
    outputs,
)

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
NO: dict[str, Array] = {"no": np.array(False), "yes": np.array(True),
                        "half": np.array(0.5, "float32")}  # fmt: skip
ROWS: Inputs = {name: (["b", 3, 4], "float32") for name in "xr"} | {"v": ([4], "float32")}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dropouts_keep_all_elements(dtype: str) -> None:
    """They are inference's, with any ratio, with and without a residual."""
    nodes = [contributed("BiasDropout", ["x", "v", "r", "half", "no"], ["a", "m"], seed=7),
             contributed("BiasDropout", ["x", "x"], ["c"]),
             contributed("BitmaskBiasDropout", ["x", "v", "r"], ["d"]),
             contributed("BitmaskDropout", ["x", "half"], ["e"])]  # fmt: skip
    inputs: Inputs = {name: (sizes, dtype) for name, (sizes, _) in ROWS.items()}
    for b in (1, 2):
        x, r, v = (a.astype(dtype) for a in (floats(b, 3, 4), floats(b, 3, 4, seed=1), floats(4)))
        a, m, c, d, e = outputs(model(nodes, inputs, "amcde", NO), {"x": x, "r": r, "v": v})
        assert m.dtype == bool and m.shape == x.shape and m.all()
        tolerance = 1e-6 if dtype == "float32" else 4e-3
        for got, expected in ((a, x + v + r), (c, x + x), (d, x + v + r), (e, x)):
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, atol=tolerance)


@pytest.mark.parametrize("conjugate", [False, True])
def test_products_of_complex_numbers(conjugate: bool) -> None:
    node = contributed("ComplexMulConj" if conjugate else "ComplexMul", ["x", "z"], ["y"])
    inputs: Inputs = {"x": (["b", 3, 2], "float32"), "z": ([3, 2], "float32")}
    proto = model([node], inputs)
    x, z = floats(2, 3, 2), floats(3, 2, seed=1)
    left, right = (a[..., 0] + 1j * a[..., 1] for a in (x, z))
    expected = left * (right.conj() if conjugate else right)
    got = outputs(proto, {"x": x, "z": z})[0]
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], expected, atol=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", None])
def test_distances_of_rows(metric: str | None) -> None:
    """Models of scikit-learn have them; ONNX Runtime cancels where rows are near each other."""
    attrs = {} if metric is None else {"metric": metric}
    node = contributed("CDist", ["x", "w"], ["y"], **attrs)
    proto = model([node], {"x": (["n", 4], "float32")}, weights={"w": floats(3, 4)})
    compare(proto, {"x": floats(5, 4, seed=1)}, {"x": floats(1, 4, seed=2)}, tolerance=1e-4)


def test_a_product_and_its_gelu() -> None:
    nodes = [contributed("GemmFastGelu", ["x", "w", "v"], ["y"]),
             contributed("GemmFastGelu", ["x", "w"], ["z"])]  # fmt: skip
    x, w, v = floats(2, 3, 4), floats(4, 5, seed=1), floats(5, seed=2)
    proto = model(nodes, {"x": (["b", 3, 4], "float32")}, "yz", {"w": w, "v": v})

    def gelu(s: Array) -> Array:
        return np.asarray(0.5 * s * (1 + np.tanh(np.sqrt(2 / np.pi) * (s + 0.044715 * s**3))))

    y, z = outputs(proto, {"x": x})
    np.testing.assert_allclose(y, gelu(x @ w + v), atol=1e-5)
    np.testing.assert_allclose(z, gelu(x @ w), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gates(dtype: str) -> None:
    """Layers of Qwen3-Next and others with linear attention."""
    nodes = [contributed("GatedAdd", ["x", "r", "g"], ["a"]),
             contributed("GatedRMSNorm", ["x", "s", "r"], ["c"], epsilon=1e-3),
             contributed("GatedRMSNorm", ["x", "t", "r"], ["d"], activation="sigmoid"),
             contributed("LinearAttentionGate", ["x", "p", "q", "r"], ["e", "f"]),
             contributed("LinearAttentionGate", ["x", "p", "q"], ["h"]),
             contributed("ScaledSiLU", ["x"], ["i"], alpha=0.5),
             contributed("ScaledSiLU", ["x", "k"], ["j"])]  # fmt: skip
    weights = {"s": 1 + floats(4), "t": 1 + floats(2), "k": np.array(2.0)}
    wide = {"p": floats(4, seed=3), "q": -1 - floats(4, seed=4)}
    arrays = {**{name: a.astype(dtype) for name, a in weights.items()}, **wide}
    inputs: Inputs = {"x": (["b", 3, 4], dtype), "r": (["b", 3, 4], dtype),
                      "g": (["b", 3, 1], dtype)}  # fmt: skip
    proto = model(nodes, inputs, "acdefhij", arrays)
    feeds = [{"x": floats(b, 3, 4).astype(dtype), "r": floats(b, 3, 4, seed=1).astype(dtype),
              "g": floats(b, 3, 1, seed=2).astype(dtype)} for b in (1, 2)]  # fmt: skip
    compare(proto, *feeds, tolerance=1e-5 if dtype == "float32" else 2e-3)


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("attrs", [{}, {"activation_alpha": 1.702, "activation_beta": 1.0,
                                        "limit": 0.5}])  # fmt: skip
def test_gated_linear_units(attrs: dict[str, float], dtype: str) -> None:
    """ONNX Runtime has them on GPUs only."""
    nodes = [contributed("SwiGLU", ["x", "r"], ["y"], **attrs),
             contributed("SwiGLU", ["x"], ["z"], **attrs)]  # fmt: skip
    inputs: Inputs = {name: (["b", 3, 4], dtype) for name in "xr"}
    x, r = (2 * floats(2, 3, 4, seed=k).astype(dtype) for k in (0, 1))
    got = outputs(model(nodes, inputs, "yz"), {"x": x, "r": r})
    limit = attrs.get("limit", np.inf)
    for result, (gate, up) in zip(got, [(x, r), np.split(x, 2, -1)], strict=True):
        g, u = (
            np.minimum(gate.astype("float64"), limit),
            np.clip(up.astype("float64"), -limit, limit),
        )
        expected = g / (1 + np.exp(-attrs.get("activation_alpha", 1.0) * g))
        expected = expected * (u + attrs.get("activation_beta", 0.0))
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, atol=1e-5 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize(
    ("op", "names", "attrs", "reason"),
    [("BiasDropout", "x v r half yes", {}, "training_mode is true, expected inference"),
     ("BitmaskDropout", "x", {"outputs": 2}, "'mask' is read, which has no lowering: export"),
     ("ComplexMul", "x x", {}, r"input 0 has the shape \[b, 3, 4\], expected a last axis of 2"),
     ("CDist", "x x", {}, "input 0 has 3 dimensions, expected 2"),
     ("CDist", "x x", {"metric": "cosine"}, "metric is 'cosine', expected 'euclidean' or"),
     ("GatedAdd", "x r x", {}, r"gate has the shape \[b, 3, 4\], expected a last axis of 1"),
     ("GatedAdd", "x r x v", {}, "its input 'gate_weight' has no lowering: multiply"),
     ("GatedRMSNorm", "x v r", {"activation": "relu"}, "activation is 'relu', expected 'silu'"),
     ("LinearAttentionGate", "x v v", {"outputs": 2}, "'beta' is read without the input 'b'")],
)  # fmt: skip
def test_refusals(op: str, names: str, attrs: dict[str, Any], reason: str) -> None:
    count = attrs.pop("outputs", 1)
    node = contributed(op, names.split(), ["y", "z"][:count], name="here", **attrs)
    with pytest.raises(FrontendError, match=f"here.*{reason}") as caught:
        from_model(model([node], ROWS, weights=NO), {})
    assert "\n" not in str(caught.value)
