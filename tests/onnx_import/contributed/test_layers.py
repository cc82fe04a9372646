"""Embeddings, norms, routers and n-grams of ONNX Runtime, compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, contributed, floats, model

NAN, INF = float("nan"), float("inf")


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("segments", [True, False])
def test_quantised_embeddings(dtype: str, segments: bool) -> None:
    rng = np.random.default_rng(0)
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    sizes = {"w": (9, 8), "p": (7, 8), "t": (2, 8), "g": (8,), "b": (8,)}
    weights: dict[str, Array] = {}
    for k, (name, shape) in enumerate(sizes.items()):
        weights[name] = rng.integers(low, high, shape).astype(dtype)
        weights[f"{name}s"] = np.array(0.01 * (k + 1), "float32")
        weights[f"{name}z"] = np.array((low + high) // 2 + k, dtype)
    names = ["ids", "seg", "w", "p", "t", "g", "b", "m", "ws", "ps", "ts", "gs", "bs", "wz", "pz",
             "tz", "gz", "bz"]  # fmt: skip
    if not segments:
        names = ["" if name in ("seg", "t", "ts", "tz", "m") else name for name in names]
    node = contributed("QEmbedLayerNormalization", names, ["y", "c"], name="embed")
    used = {name: w for name, w in weights.items() if name in names}
    inputs: Any = {name: (["n", "s"], "int32") for name in ("ids", "seg", "m") if name in names}
    proto = model([node], inputs, ["y", "c"], used)

    def feed(rows: int, length: int) -> dict[str, Array]:
        ids = rng.integers(0, 9, (rows, length)).astype("int32")
        mask = (np.arange(length) < length - np.arange(rows)[:, None]).astype("int32")
        every = {"ids": ids, "seg": ids % 2, "m": mask}
        return {name: every[name] for name in inputs}

    compare(proto, feed(2, 5), feed(1, 7), feed(3, 3), tolerance=1e-4)


def test_norms_of_branches() -> None:
    for shape, scale, attrs in (([3, 8], [3, 8], {}), ([3, 8], [24], {}), ([3, 8], [8], {}),
                                ([3, 8], None, {"epsilon": 0.1}), ([24], [24], {"num_branches": 3}),
                                ([24], [8], {"num_branches": 3}),
                                ([24], [3, 8], {"num_branches": 3})):  # fmt: skip
        names = ["x", "s"] if scale else ["x"]
        weights = {"s": floats(*scale, seed=1)} if scale else {}
        proto = model([contributed("BranchwiseRMSNorm", names, ["y"], **attrs)],
                      {"x": (["n", *shape], "float32")}, weights=weights)  # fmt: skip
        x = floats(4, *shape)
        x[1] = 0.0
        compare(proto, {"x": x}, {"x": floats(1, *shape)})


@pytest.mark.parametrize("attrs", [
    {"n_group": 4, "topk_group": 2, "group_topk": 2, "top_k": 3}, {"top_k": 2},
    {"n_group": 2, "topk_group": 1, "group_topk": 9, "top_k": 4, "router_sentinel": -1e4},
    {"n_group": 8, "topk_group": 3, "group_topk": 1, "top_k": 3, "router_sentinel": 1.0},
])  # fmt: skip
def test_routers_of_groups(attrs: dict[str, Any]) -> None:
    proto = model([contributed("MoEGroupRouter", ["x", "b"], ["y"], **attrs)],
                  {"x": (["n", 8], "float32")}, weights={"b": floats(8, seed=3)})  # fmt: skip
    far = floats(2, 8)
    far[0], far[1, ::2] = -200.0, 300.0
    compare(proto, {"x": floats(6, 8) * 4}, {"x": far}, {"x": floats(1, 8)})


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ngrams_are_not_repeated(n: int) -> None:
    proto = model([contributed("NGramRepeatBlock", ["i", "s"], ["y"], ngram_size=n)],
                  {"i": (["n", "t"], "int64"), "s": (["n", 5], "float32")})  # fmt: skip
    scores = floats(2, 5)
    scores[0, :3] = NAN, INF, -0.0
    rows = ([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]], [[1, 2, 1, 2, 1, 2, 1], [0, 1, 0, 3, 0, 1, 0]],
            [[1], [2]], [[1, 2], [0, 0]])  # fmt: skip
    compare(proto, *({"i": np.array(r), "s": scores} for r in rows))


def test_windows_of_an_axis() -> None:
    for attrs in ({"dim": 1, "size": 3, "step": 2}, {"size": 2}, {"dim": -3, "size": 1}):
        proto = model([contributed("UnfoldTensor", ["x"], ["y"], **attrs)],
                      {"x": (["n", "m", 4], "float32")})  # fmt: skip
        compare(proto, {"x": floats(2, 7, 4)}, {"x": floats(1, 3, 4)})


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "reason"),
    [("NGramRepeatBlock", [[2, 3], [2, 5]], {"ngram_size": 0}, "'ngram_size' is 0"),
     ("UnfoldTensor", [[2, 3]], {"size": 2, "dim": 3}, "'dim' is 3, expected -2 to 1"),
     ("UnfoldTensor", [[2, 3]], {"size": 4}, "sizes contradict each other"),
     ("MoEGroupRouter", [[2, 6], [6]], {"n_group": 4, "top_k": 1}, "6 experts, expected a mul"),
     ("MoEGroupRouter", [[2, 6], [6]], {"n_group": 2, "top_k": 4}, "expected no more than"),
     ("MoEGroupRouter", [[2, 6], [6], [6, 2]], {"top_k": 1}, "'projection_weight' has no low"),
     ("BranchwiseRMSNorm", [[2, 6]], {"num_branches": 4}, "a multiple of num_branches, 4")],
)  # fmt: skip
def test_refusals(op: str, shapes: list[list[int]], attrs: dict[str, Any], reason: str) -> None:
    names = [f"x{k}" for k in range(len(shapes))]
    kinds = {name: (shape, "int64" if op[0] == "N" and name == "x0" else "float32")
             for name, shape in zip(names, shapes, strict=True)}  # fmt: skip
    proto = model([contributed(op, names, ["y"], name="here", **attrs)], kinds)
    with pytest.raises(FrontendError, match=f"here.*{reason}"):
        from_model(proto, {})
