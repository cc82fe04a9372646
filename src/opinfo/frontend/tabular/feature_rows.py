"""Operators of classical machine learning on rows of features, from the domain ``ai.onnx.ml``."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ..onnx_graph.conversion.converter_table import ML, converts
from ..onnx_graph.onnx_node import OnnxNode


@converts("Scaler", domain=ML)
def scaler(node: OnnxNode) -> Any:
    """Return (x - offset) * scale, as float32."""
    data = wide(node)
    dtype = str(data.ty.dtype)
    offset, scale = (_per_feature(node, name, dtype) for name in ("offset", "scale"))
    shifted = node.emit(relax.op.subtract(data, offset))
    return single(node, relax.op.multiply(shifted, scale))


@converts("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: OnnxNode) -> Any:
    """Take columns of the last axis; a vector counts as one row."""
    columns = node.reshape(node.tensor(1), [-1])
    data = (
        node.tensor(0) if node.rank(0) > 1 else node.emit(relax.op.expand_dims(node.tensor(0), 0))
    )
    return relax.op.take(data, columns, -1)


@converts("Binarizer", domain=ML)
def binarizer(node: OnnxNode) -> Any:
    """Return 1 where an element is above a threshold, and else 0."""
    data, dtype = node.tensor(0), node.dtype(0)
    above = node.emit(relax.op.greater(data, relax.const(node.attr("threshold", 0.0), dtype)))
    return relax.op.astype(above, dtype)


@converts("Normalizer", domain=ML)
def normalizer(node: OnnxNode) -> Any:
    """Divide each row by a norm of it, unless that is 0; the result is float32."""
    data, kind = wide(node), node.text("norm", "MAX")
    if kind == "MAX":
        norm = relax.op.max(data, -1, True)
    elif kind == "L1":
        norm = relax.op.sum(node.emit(relax.op.abs(data)), -1, True)
    elif kind == "L2":
        squares = node.emit(relax.op.multiply(data, data))
        norm = relax.op.sqrt(node.emit(relax.op.sum(squares, -1, True)))
    else:
        node.refuse(f"norm is '{kind}', expected MAX, L1 or L2")
    norm, dtype = node.emit(norm), str(data.ty.dtype)
    empty = node.emit(relax.op.equal(norm, relax.const(0.0, dtype)))
    divisor = node.emit(relax.op.where(empty, relax.const(1.0, dtype), norm))
    return single(node, relax.op.divide(data, divisor))


@converts("LinearRegressor", domain=ML)
def linear_regressor(node: OnnxNode) -> Any:
    """Return x @ coefficients + intercepts, one column a target."""
    scores = _linear(node, int(node.attr("targets", 1)))
    return transformed(node, scores, node.text("post_transform", "NONE"))


@converts("LinearClassifier", domain=ML)
def linear_classifier(node: OnnxNode) -> list[Any]:
    """Return the class with the largest score of each row, and the scores."""
    labels = class_labels(node)
    if len(labels) < 3:
        node.refuse(f"it has {len(labels)} classes, of which only three and more have a lowering")
    scores = node.emit(_linear(node, len(labels)))
    result = transformed(node, scores, node.text("post_transform", "NONE"))
    return [labelled(node, scores, labels), result]


def wide(node: OnnxNode) -> Any:
    """Return the input of numbers as float64 if it is that, and else as float32."""
    data, dtype = node.tensor(0), node.dtype(0)
    if dtype not in ("float32", "float64", "int32", "int64"):
        node.refuse(f"the input is {dtype}, expected numbers of 32 or 64 bits")
    return data if dtype.startswith("float") else node.emit(relax.op.astype(data, "float32"))


def single(node: OnnxNode, expr: Any) -> Any:
    """Return an expression as float32."""
    bound = node.emit(expr)
    return bound if str(bound.ty.dtype) == "float32" else relax.op.astype(bound, "float32")


def features(node: OnnxNode) -> int:
    """Return the number of features; refuses other inputs than rows of them."""
    shape = node.shape(0)
    if len(shape) != 2 or not isinstance(shape[1], int):
        node.refuse(f"the input has {len(shape)} dimensions, expected rows of a static number of "
                    "features", *shape[1:2])  # fmt: skip
    return int(shape[1])


def class_labels(node: OnnxNode) -> np.ndarray[Any, Any]:
    """Return the labels of classes, which must be integers."""
    for name in ("classlabels_int64s", "classlabels_ints"):
        if labels := node.attr(name):
            return np.array(labels, "int64")
    node.refuse("its labels are strings, expected integers")


def labelled(node: OnnxNode, scores: Any, labels: np.ndarray[Any, Any]) -> Any:
    """Return the label of the first largest score of each row."""
    best = node.emit(relax.op.argmax(scores, -1, False))
    return relax.op.take(relax.const(labels, "int64"), best, 0)


def transformed(node: OnnxNode, scores: Any, kind: str) -> Any:
    """Return scores after an operator's ``post_transform``."""
    scores = node.emit(scores)
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return node.emit(relax.op.sigmoid(scores))
    if kind == "SOFTMAX":
        return node.emit(relax.op.nn.softmax(scores, -1))
    node.refuse(f"post_transform is '{kind}', expected NONE, LOGISTIC or SOFTMAX")


def _per_feature(node: OnnxNode, name: str, dtype: str) -> Any:
    """Return an attribute of a number for each feature, or of one for all."""
    values = np.array(node.attr(name, []), dtype)
    if len(values) != 1 and len(values) != features(node):
        node.refuse(f"{name} has {len(values)} numbers, expected 1 or {features(node)}")
    return relax.const(values, dtype)


def _linear(node: OnnxNode, rows: int) -> Any:
    data = single(node, wide(node))
    columns = features(node)
    weights = np.array(node.attr("coefficients", []), "float32")
    bias = np.array(node.attr("intercepts", []) or [0.0] * rows, "float32")
    if weights.size != rows * columns or bias.size != rows:
        node.refuse(f"it has {weights.size} coefficients and {bias.size} intercepts, expected "
                    f"{rows} x {columns} and {rows}")  # fmt: skip
    matrix = relax.const(np.ascontiguousarray(weights.reshape(rows, columns).T))
    return relax.op.add(node.emit(relax.op.matmul(data, matrix)), relax.const(bias))
