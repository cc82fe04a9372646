"""Ensembles of decision trees, from the domain ``ai.onnx.ml``.

All trees step together: a tensor holds the node of each row and tree. A step reads the node's
feature and split, and moves to one of its two children. Leaves are their own children, so as many
steps as the deepest tree has levels end at leaves, whose weights are added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.conversion.converter_table import ML, converts
from ..onnx_graph.onnx_node import OnnxNode
from .feature_rows import class_labels, features, labelled, transformed, wide
from .forest import Forest, classic_forest, forest_of_roots

#: How the weights of leaves are combined, by the numbers of `TreeEnsemble`.
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@converts("TreeEnsemble", domain=ML)
def tree_ensemble(node: OnnxNode) -> Any:
    """Return one number for each row and target."""
    aggregate, transform = (int(node.attr(name, default)) for name, default in (
        ("aggregate_function", 1), ("post_transform", 0)))  # fmt: skip
    if not 0 <= aggregate < len(AGGREGATES):
        node.refuse(f"aggregate_function is {aggregate}, expected 0 to {len(AGGREGATES) - 1}")
    forest = forest_of_roots(node.attrs, node.dtype(0))
    scores = _scores(node, forest, AGGREGATES[aggregate], None)
    if transform:  # ONNX Runtime takes 1 for LOGISTIC and 2 for SOFTMAX
        node.refuse(f"post_transform is {transform}, of which runtimes disagree")
    return scores


@converts("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(node: OnnxNode) -> Any:
    """Return one number for each row and target, as float32."""
    targets = int(node.attr("n_targets", 1))
    forest = classic_forest(node.attrs, "target", targets, _dtype(node))
    base = _base(node, targets)
    scores = _scores(node, forest, node.text("aggregate_function", "SUM"), base)
    result = _transformed(node, forest, scores, node.text("post_transform", "NONE"))
    return relax.op.astype(result, "float32")


@converts("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(node: OnnxNode) -> list[Any]:
    """Return the class with the largest sum of each row, and the sums as float32."""
    labels, kind = class_labels(node), node.text("post_transform", "NONE")
    named = set(node.attr("class_ids", []))
    if len(labels) == 2 and named == {0}:
        return _of_two(node, labels, kind)
    if len(labels) < 3 or len(named) < len(labels):
        node.refuse(f"{len(named)} of {len(labels)} classes have leaves, expected all of three or "
                    "more, or the first of two")  # fmt: skip
    forest = classic_forest(node.attrs, "class", len(labels), _dtype(node))
    if not forest.always:
        node.refuse("rows may have no number for a class, which is then not chosen")
    scores = node.emit(_scores(node, forest, "SUM", _base(node, len(labels))))
    result = _transformed(node, forest, scores, kind)
    return [labelled(node, scores, labels), relax.op.astype(result, "float32")]


def _of_two(node: OnnxNode, labels: np.ndarray[Any, Any], kind: str) -> list[Any]:
    """Return the class of two, and the scores of both.

    Leaves only have a number s for the second class, although it is stored for the first. It is a
    probability if none is below 0: then the scores are 1 - s and s. Else they are -s and s.
    """
    if kind not in ("NONE", "LOGISTIC"):
        node.refuse(f"post_transform is '{kind}' for two classes, expected NONE or LOGISTIC")
    forest = classic_forest(node.attrs, "class", 1, _dtype(node))
    score = node.emit(_scores(node, forest, "SUM", _base(node, 1)))
    probable, dtype = bool((forest.weights >= 0).all()), str(score.ty.dtype)
    least = relax.const(0.5 if probable else 0.0, dtype)
    best = node.emit(relax.op.squeeze(node.emit(relax.op.greater(score, least)), [1]))
    label = relax.op.where(best, relax.const(labels[1], "int64"), relax.const(labels[0], "int64"))
    if probable:
        other = relax.op.subtract(relax.const(1.0, dtype), score)
    else:
        other = relax.op.negative(score)
    both = node.emit(relax.op.concat([node.emit(other), score], 1))
    both = both if probable else transformed(node, both, kind)
    return [label, relax.op.astype(both, "float32")]


def _dtype(node: OnnxNode) -> str:
    return "float64" if node.dtype(0) == "float64" else "float32"


def _base(node: OnnxNode, targets: int) -> np.ndarray[Any, Any] | None:
    """Return what is added to the sums of a target; None if nothing is."""
    tensor = node.attr("base_values_as_tensor")
    values = node.attr("base_values") if tensor is None else None
    if tensor is not None:
        node.refuse("base_values_as_tensor has no lowering")
    if not values:
        return None
    if len(values) != targets:
        node.refuse(f"base_values has {len(values)} numbers, expected {targets}")
    return np.array(values, "float32")


def _scores(
    node: OnnxNode, forest: Forest, aggregate: str, base: np.ndarray[Any, Any] | None
) -> Any:
    """Return the combined weights of the leaves that each row ends at."""
    data, count = wide(node), features(node)
    dtype = str(data.ty.dtype)
    if forest.features.max(initial=0) >= count:
        node.refuse(f"it reads feature {forest.features.max()}, and a row has {count}")
    leaves = _walked(node, data, forest)
    weights = node.emit(relax.op.take(_constant(forest.weights.astype(dtype)), leaves, 0))
    if aggregate in ("MIN", "MAX"):
        if not forest.complete:
            node.refuse(f"{aggregate} of leaves of which some have no number for a target")
        combine = relax.op.min if aggregate == "MIN" else relax.op.max
        scores = node.emit(combine(weights, 1))
    else:
        scores = node.emit(relax.op.sum(weights, 1))
    if aggregate == "AVERAGE":
        trees = relax.const(float(len(forest.roots)), dtype)
        scores = node.emit(relax.op.divide(scores, trees))
    if base is None:
        return scores
    if not forest.always:
        node.refuse("base_values of targets that rows may have no number for, which runtimes omit")
    return node.emit(relax.op.add(scores, _constant(base.astype(dtype))))


def _transformed(node: OnnxNode, forest: Forest, scores: Any, kind: str) -> Any:
    """Return scores after ``post_transform``, which runtimes only apply to several known ones."""
    if kind != "NONE" and (forest.weights.shape[1] == 1 or not forest.always):
        node.refuse(f"post_transform is '{kind}' of one target, or of targets that rows may have "
                    "no number for")  # fmt: skip
    return transformed(node, scores, kind)


def _walked(node: OnnxNode, data: Any, forest: Forest) -> Any:
    """Return the leaf of each row and tree."""
    at: Any = None
    for _ in range(max(forest.depth, 1)):
        feature, split, then, other = (
            _constant(a[forest.roots][None]) if at is None
            else node.emit(relax.op.take(_constant(a), at, 0))
            for a in (forest.features, forest.splits, forest.then, forest.other)
        )  # fmt: skip
        if at is None:
            read = node.emit(relax.op.take(data, _constant(forest.features[forest.roots]), 1))
        else:
            read = node.emit(relax.op.gather_elements(data, feature, 1))
        passes = node.emit(relax.op.less_equal(read, split))
        if forest.equal.any():
            same = node.emit(relax.op.equal(read, split))
            passes = node.emit(relax.op.where(_flags(node, forest, forest.equal, at), same, passes))
        if forest.missing.any():
            absent = node.emit(relax.op.isnan(read))
            tracked = _flags(node, forest, forest.missing, at)
            absent = node.emit(relax.op.logical_and(absent, tracked))
            passes = node.emit(relax.op.logical_or(passes, absent))
        at = node.emit(relax.op.where(passes, then, other))
    return at


def _flags(node: OnnxNode, forest: Forest, flags: np.ndarray[Any, Any], at: Any) -> Any:
    """Return a flag of the node of each row and tree."""
    if at is None:
        return _constant(flags[forest.roots][None])
    return node.emit(relax.op.take(_constant(flags), at, 0))


def _constant(array: np.ndarray[Any, Any]) -> Any:
    return relax.const(np.ascontiguousarray(array), str(array.dtype))
