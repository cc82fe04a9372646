"""Trees and other operators on rows of features, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_onnx import from_model
from tests.models.weights import Array
from tests.onnx_import.against_runtime import compare, floats, model

FEATURES, LEVELS, TREES = 4, 2, 3
#: Splits and elements of inputs come from here, so that many are equal.
VALUES = np.linspace(-1, 1, 5)


def proto_of(op: str, dtype: str = "float32", outputs: Any = ("y",), **attrs: Any) -> Any:
    """Return a model of one node of the domain, on rows of features."""
    return proto_of_all([_node(op, outputs, attrs)], dtype, outputs)


def proto_of_all(nodes: Any, dtype: str, outputs: Any) -> Any:
    proto = model(nodes, {"x": (["n", FEATURES], dtype)}, outputs)
    version = 5 if nodes[0].op_type == "TreeEnsemble" else 3
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    return proto


def _node(op: str, outputs: Any, attrs: Any) -> Any:
    return helper.make_node(op, ["x"], list(outputs), domain="ai.onnx.ml", **attrs)


def rows(dtype: str = "float32") -> Array:
    """Return rows whose elements are splits, infinities and NaN."""
    random = np.random.default_rng(3)
    out = random.choice(VALUES, (40, FEATURES))
    out[0], out[1], out[2] = np.nan, np.inf, -np.inf
    out[random.random(out.shape) < 0.1] = np.nan
    return out.astype(dtype)


def classic(prefix: str, modes: Any, targets: int = 1, low: float = -1.0) -> dict[str, Any]:
    """Return complete trees with leaves of one number each, for random targets."""
    random = np.random.default_rng(len(modes))
    inner, total = 2**LEVELS - 1, 2 ** (LEVELS + 1) - 1
    out: dict[str, Any] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "truenodeids", "falsenodeids", "featureids", "values", "modes",
        "missing_value_tracks_true")}  # fmt: skip
    for tree in range(TREES):
        for k in range(total):
            leaf = k >= inner
            row = (
                tree,
                k,
                *((0, 0) if leaf else (2 * k + 1, 2 * k + 2)),
                int(random.integers(FEATURES)),
                float(random.choice(VALUES)),
                "LEAF" if leaf else str(random.choice(modes)),
                int(random.integers(2)),
            )
            for name, value in zip(out, row, strict=True):
                out[name].append(value)
    leaves = [(tree, k) for tree in range(TREES) for k in range(inner, total)]
    out[f"{prefix}_treeids"], out[f"{prefix}_nodeids"] = map(list, zip(*leaves, strict=True))
    out[f"{prefix}_ids"] = [k % targets for k in range(len(leaves))]
    out[f"{prefix}_weights"] = random.uniform(low, 1, len(leaves)).tolist()
    return out


@pytest.mark.parametrize("modes", [["LT"], ["GTE"], ["EQ"], ["LEQ", "LT", "GTE", "GT", "NEQ"]])
def test_trees_compare_and_follow_missing_values(modes: list[str]) -> None:
    attrs = classic("target", [f"BRANCH_{m}" for m in modes], 2)
    proto = proto_of("TreeEnsembleRegressor", n_targets=2, **attrs)
    compare(proto, {"x": rows()}, {"x": rows()[:3]})


def test_trees_of_float64() -> None:
    attrs = classic("target", ["BRANCH_LEQ"])
    proto = proto_of("TreeEnsembleRegressor", "float64", n_targets=1, aggregate_function="AVERAGE",
                     base_values=[0.5], **attrs)  # fmt: skip
    compare(proto, {"x": rows("float64")})


def _tensor(values: Any, dtype: str) -> Any:
    return numpy_helper.from_array(np.array(values, dtype))


def roots(dtype: str, targets: int) -> dict[str, Any]:
    """Return two trees of `TreeEnsemble`: one of two levels, and one of one leaf."""

    return {"nodes_splits": _tensor([0.5, -0.5, np.inf], dtype), "nodes_featureids": [0, 2, 1],
            "nodes_modes": _tensor([0, 3, 0], "uint8"), "nodes_truenodeids": [1, 0, 3],
            "nodes_falsenodeids": [2, 1, 3], "nodes_trueleafs": [0, 1, 1],
            "nodes_falseleafs": [1, 1, 1], "nodes_missing_value_tracks_true": [1, 0, 0],
            "tree_roots": [0, 2], "leaf_targetids": [k % targets for k in range(4)],
            "leaf_weights": _tensor([0.25, -1.0, 2.0, 3.0], dtype), "n_targets": targets,
            }  # fmt: skip


@pytest.mark.parametrize(("dtype", "targets", "aggregate"), [
    ("float64", 1, 0), ("float32", 1, 3), ("float32", 3, 1),
])  # fmt: skip
def test_trees_with_roots(dtype: str, targets: int, aggregate: int) -> None:
    proto = proto_of("TreeEnsemble", dtype, aggregate_function=aggregate, **roots(dtype, targets))
    compare(proto, {"x": rows(dtype)})


@pytest.mark.parametrize(("labels", "low", "transform", "base"), [
    ([4, 7, 5], -1.0, "NONE", None), ([4, 7, 5], -1.0, "SOFTMAX", [0.1, 0.0, -0.1]),
    ([3, 8], 0.0, "NONE", None), ([3, 8], -1.0, "LOGISTIC", None), ([3, 8], -1.0, "NONE", [0.25]),
])  # fmt: skip
def test_trees_choose_a_class(labels: Any, low: float, transform: str, base: Any) -> None:
    attrs = classic("class", ["BRANCH_LEQ"], len(labels) if len(labels) > 2 else 1, low)
    attrs |= {"base_values": base} if base else {}
    if len(labels) > 2:  # each tree is of one class
        attrs["class_ids"] = attrs["class_treeids"]
    proto = proto_of("TreeEnsembleClassifier", outputs=("label", "y"), post_transform=transform,
                     classlabels_int64s=labels, **attrs)  # fmt: skip
    compare(proto, {"x": rows()})


def _broken(**changed: Any) -> dict[str, Any]:
    attrs = roots("float32", 1) | changed
    return {key: value for key, value in attrs.items() if value is not None}


@pytest.mark.parametrize(("attrs", "message"), [
    (_broken(nodes_truenodeids=[9, 0, 3]), "a child that is not in its tree"),
    (_broken(nodes_truenodeids=[0, 0, 3]), "a tree has a loop"),
    (_broken(nodes_featureids=[0, 9, 1]), "it reads feature 9, and a row has 4"),
    (_broken(nodes_splits=_tensor([0, np.nan, 0], "float32")), "with NaN"),
    (_broken(tree_roots=[3]), "tree_roots"),
    (_broken(leaf_targetids=[0, 1, 0, 0]), "of a target outside of 1"),
    (_broken(nodes_modes=_tensor([0, 6, 0], "uint8")), "a set of numbers"),
    (_broken(post_transform=2), "post_transform is 2, of which runtimes disagree"),
    (_broken(n_targets=3, aggregate_function=2), "MIN of leaves"),
])  # fmt: skip
def test_trees_that_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(FrontendError, match=f"TreeEnsemble.*{message}"):
        from_model(proto_of("TreeEnsemble", **attrs), {})


@pytest.mark.parametrize(("labels", "message"), [
    ([0, 1], "2 of 2 classes have leaves, expected all of three"),
    ([0, 1, 2], "rows may have no number for a class, which is then not chosen"),
])  # fmt: skip
def test_classes_whose_scores_a_runtime_derives_are_refused(
    labels: list[int], message: str
) -> None:
    attrs = classic("class", ["BRANCH_LEQ"], len(labels))
    proto = proto_of("TreeEnsembleClassifier", outputs=("label", "y"),
                     classlabels_int64s=labels, **attrs)  # fmt: skip
    with pytest.raises(FrontendError, match=message):
        from_model(proto, {})


def test_base_values_that_a_runtime_omits_are_refused() -> None:
    attrs = classic("target", ["BRANCH_LEQ"], 2)
    proto = proto_of("TreeEnsembleRegressor", n_targets=2, base_values=[0.5, -2.0], **attrs)
    with pytest.raises(FrontendError, match="base_values of targets that rows may have no number"):
        from_model(proto, {})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_are_scaled(dtype: str) -> None:
    scales = {"offset": [0.5, 0.1, 0.0, 9.0], "scale": [1.0, 2.0, -1.0, 0.1]}
    nodes = [
        _node("Scaler", ["a"], scales),
        _node("Scaler", ["b"], {"offset": [0.5], "scale": [3.0]}),
        *(_node("Normalizer", [norm], {"norm": norm}) for norm in ("MAX", "L1", "L2")),
    ]
    x = 3 * floats(5, FEATURES)
    x[1] = 0
    proto = proto_of_all(nodes, dtype, ["a", "b", "MAX", "L1", "L2"])
    compare(proto, {"x": x.astype(dtype)})


def test_linear_models() -> None:
    weights = floats(3 * FEATURES, seed=1).tolist()
    classifiers = [_node("LinearClassifier", [f"label {kind}", kind], {
        "coefficients": weights, "intercepts": [0.1, 0.2, -0.3], "classlabels_ints": [5, 1, 9],
        "post_transform": kind}) for kind in ("NONE", "SOFTMAX", "LOGISTIC")]  # fmt: skip
    nodes = [
        _node("Binarizer", ["a"], {"threshold": 0.25}),
        _node("LinearRegressor", ["b"], {"targets": 3, "coefficients": weights}),
        *classifiers,
    ]
    outputs = [name for node in nodes for name in node.output]
    compare(proto_of_all(nodes, "float32", outputs), {"x": floats(5, FEATURES)})


def test_a_loop_beside_a_leaf_is_not_a_tree() -> None:
    attrs: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [0, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }  # fmt: skip
    with pytest.raises(FrontendError, match="a node is not below the root of its tree"):
        from_model(proto_of("TreeEnsembleRegressor", n_targets=1, **attrs), {})
    attrs["nodes_truenodeids"] = [1, 0, 0]
    compare(proto_of("TreeEnsembleRegressor", n_targets=1, **attrs), {"x": rows()})
