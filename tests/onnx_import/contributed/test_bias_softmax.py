"""BiasSoftmax, which ONNX Runtime has no CPU kernel for, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import contributed, floats, model, outputs

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


def expected(x: Array, bias: Array, axis: int, inner: bool) -> Array:
    """Return the softmax by the operator's definition: rows of elements, and rows of the bias."""
    axis %= x.ndim
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1).astype("float64")
    own = bias.reshape(-1, rows.shape[1]).astype("float64")
    repeats = len(rows) // len(own)
    scores = rows + (np.repeat(own, repeats, 0) if inner else np.tile(own, (repeats, 1)))
    weights = np.exp(scores - scores.max(1, keepdims=True))
    result: Array = (weights / weights.sum(1, keepdims=True)).reshape(x.shape)
    return result


FORMS = [((2, 1, 1, 5), 3, 1), ((1, 1, 4, 5), 3, 0), ((4, 5), -1, 0), ((1, 3, 4, 5), -1, 0),
         ((2, 3, 1, 5), 3, 1), ((5,), 3, 1), ((1, 1, 4, 5), 2, 0), ((2, 1, 4, 5), 2, 1),
         ((2, 3, 4, 5), 1, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "axis", "inner", "dtype"),
    [*((*form, "float32") for form in FORMS), *((*form, "float16") for form in FORMS[:2])],
)
def test_biases(sizes: tuple[int, ...], axis: int, inner: int, dtype: str) -> None:
    names = ["b" if size == 2 else size for size in sizes]
    node = contributed("BiasSoftmax", ["x", "m"], ["y"], axis=axis, is_inner_broadcast=inner)
    proto = model([node], {"x": (["b", 3, 4, 5], dtype), "m": (names, dtype)})
    x, m = (4 * floats(2, 3, 4, 5)).astype(dtype), (4 * floats(*sizes, seed=1)).astype(dtype)
    got = outputs(proto, {"x": x, "m": m})[0]
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected(x, m, axis, bool(inner)),
                               atol=1e-6 if dtype == "float32" else 1e-3)  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "attrs", "reason"),
    [((2, 1, 1, 5), {"axis": 3, "is_inner_broadcast": 0}, "expected a size of 3, got 1"),
     ((1, 1, 4, 5), {"axis": 3, "is_inner_broadcast": 1}, "expected a size of 2, got 1"),
     ((2, 3, 4, 4), {"axis": 3, "is_inner_broadcast": 1}, "expected a size of 5, got 4"),
     ((5,), {"axis": 2, "is_inner_broadcast": 1}, "bias has 1 dimensions, expected 2 to 4"),
     ((5,), {"axis": 4, "is_inner_broadcast": 1}, "axis is 4, expected -4 to 3"),
     ((5,), {"axis": 3}, "'is_inner_broadcast' is missing, expected 0 or 1")],
)  # fmt: skip
def test_refusals(sizes: tuple[int, ...], attrs: dict[str, int], reason: str) -> None:
    node = contributed("BiasSoftmax", ["x", "m"], ["y"], name="here", **attrs)
    proto = model([node], {"x": ([2, 3, 4, 5], "float32"), "m": (sizes, "float32")})
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
