"""Counts of n-grams, and pads whose value is computed, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from ..against_runtime import compare, floats, model
from .against_reference import check

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
POOL = {"pool_int64s": [2, 3, 1, 2, 2, 2, 3, 1, 2, 3, 1], "ngram_counts": [0, 2, 8],
        "ngram_indexes": [1, 0, 4, 3, 1, 6], "min_gram_length": 1, "max_gram_length": 3,
        "max_skip_count": 0, "mode": "TF"}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "counts": {}, "with gaps": {"max_skip_count": 2},
    "of two": {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 1},
    "weighted": {"mode": "TFIDF", "weights": [0.5, 2, 3, 4, 5, 6], "ngram_indexes": [*range(6)]},
    "present": {"mode": "IDF", "weights": [0.5, 2, 3, 4, 5, 6], "ngram_indexes": [*range(6)],
                "max_skip_count": 9},
}  # fmt: skip


@pytest.mark.part
@pytest.mark.parametrize("dims", [[12], ["n"], [3, 7], ["b", "n"]], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_counts_of_ngrams(name: str, dims: list[Any]) -> None:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(POOL | CASES[name]))
    shapes = [(12,), (2,)] if dims == ["n"] else [(12,)] if len(dims) == 1 else [(3, 7)]
    feeds = [{"x": np.random.default_rng(k).integers(1, 4, shape).astype("int32")}
             for k, shape in enumerate(shapes)]  # fmt: skip
    compare(model([node], {"x": (dims, "int32")}), *feeds)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"mode": "DF"}, "mode is 'DF', expected TF, IDF or TFIDF"),
        ({"weights": [1.0]}, "1 weights, expected one for each of 6 n-grams"),
        ({"weights": [1.0, 2, 3, 4, 5, 6]}, "6 weights, expected .* in the order of ngram_indexes"),
        ({"ngram_counts": [0, 4]}, "7 integers for n-grams of 2, expected a multiple"),
        ({"ngram_indexes": [0, 1]}, "expected a column for each of 6 n-grams"),
        ({"ngram_counts": [2, 0]}, r"ngram_counts are \[2, 0\], expected ascending places"),
        ({"pool_int64s": [2, 2, 1, 2, 2, 2, 3, 1]}, "an n-gram is given twice"),
    ],
)
def test_other_ngrams_are_refused(attrs: dict[str, Any], reason: str) -> None:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(POOL | attrs))
    with pytest.raises(FrontendError, match=rf"\(TfIdfVectorizer\): .*({reason})"):
        from_model(model([node], {"x": ([4], "int64")}), {})


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("shape", [[], [1]])
def test_pads_with_a_computed_value(shape: list[int], dtype: str) -> None:
    node = helper.make_node("Pad", ["x", "p", "v"], ["y"])
    inputs: dict[str, Any] = {"x": (["n", 3], dtype), "v": (shape, dtype)}
    proto = model([node], inputs, weights={"p": np.array([1, -1, 0, 2])})
    compare(proto, {"x": (9 * floats(2, 3)).astype(dtype), "v": np.full(shape, 7, dtype)})


def test_no_ngram_has_an_allowed_length() -> None:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"],
                            **(POOL | {"min_gram_length": 4, "max_gram_length": 5}))  # fmt: skip
    check(model([node], {"x": (["b", 4], "int64")}), {"x": np.array([[2, 3, 1, 2]])})
