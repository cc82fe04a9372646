"""Non-maximum suppression, with limits that may be computed at run time.

TVM's takes limits that are not constants for 0, suppresses boxes whose overlap equals the
threshold, and takes scores of 0 or less for those of suppressed boxes.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.onnx_node import OnnxNode

#: No score is below it.
LOWEST = float("-inf")


@converts("NonMaxSuppression")
def non_max_suppression(node: OnnxNode) -> Any:
    """Return rows of batch, class and box; the best boxes that overlap no better one."""
    boxes, scores = node.tensor(0), node.tensor(1)
    boxes = node.cast_shape(boxes, [node.shape(1)[0], node.shape(1)[2], 4])
    limits = [_limit(node, 2, 0, "int64"), _limit(node, 3, 0.0, "float32"),
              _limit(node, 4, LOWEST, "float32")]  # fmt: skip
    kernel = node.builder.emit_te(
        _kernel, boxes, scores, *limits, bool(node.attr("center_point_box", 0)), node.has(4)
    )
    rows, count = (node.emit(relax.TupleGetItem(kernel, k)) for k in (0, 1))
    width = relax.const([3], "int64")
    end = node.emit(relax.op.concat([count, width], 0))
    start, step = (relax.const([k, k], "int64") for k in (0, 1))
    result = node.emit(relax.op.dynamic_strided_slice(rows, start, end, step))
    selected = tirx.Var("selected", "int64")
    return node.builder.match_cast(result, relax.TensorType([selected, 3], "int64"))


def _limit(node: OnnxNode, k: int, default: float, dtype: str) -> Any:
    """Return an optional limit as a tensor of one element."""
    if not node.has(k):
        return relax.const([default], dtype)
    return node.emit(relax.op.reshape(node.tensor(k), [1]))


def _kernel(
    boxes: Any, scores: Any, most: Any, overlap: Any, least: Any, centred: bool, limited: bool
) -> Any:
    """Select boxes.

    Args:
        boxes: (batch, n, 4), two corners, or a centre and sizes if `centred`.
        scores: (batch, classes, n).
        most: The most boxes of a class, (1,).
        overlap: Boxes are suppressed whose intersection over union is above it, (1,).
        least: If `limited`, scores must be above it, (1,).

    Returns:
        Rows (batch * classes * n, 3), their count (1,), and which boxes are suppressed.
    """
    batch, classes, n = scores.shape

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.seq_scope():
                _body(inputs, outputs, centred, limited)
            return builder.get()

    return te.extern(
        [(batch * classes * n, 3), (1,), (n,)], [boxes, scores, most, overlap, least], body,
        dtype=["int64", "int64", "int32"], name="non_max_suppression",
    )  # fmt: skip


def _body(inputs: Any, outputs: Any, centred: bool, limited: bool) -> None:
    batch, classes, n = inputs[1].shape
    boxes, scores, most, overlap, least = (T.buffer_proxy(x) for x in inputs)
    rows, count, dead = (T.buffer_proxy(x) for x in outputs)
    best = T.buffer_proxy(T.alloc_buffer((1,), "int64", scope="local"))
    taken = T.buffer_proxy(T.alloc_buffer((1,), "int64", scope="local"))
    count[0] = tirx.const(0, "int64")
    with T.serial(0, batch) as b, T.serial(0, classes) as c:
        with T.serial(0, n) as k:
            dead[k] = tirx.const(0, "int32")
        taken[0] = tirx.const(0, "int64")
        best[0] = tirx.const(0, "int64")
        with T.While(tirx.all(best[0] >= 0, taken[0] < most[0])):
            best[0] = tirx.const(-1, "int64")
            with T.serial(0, n) as k:
                score = scores[b, c, k]
                fits = [dead[k] == 0, *([score > least[0]] if limited else [])]
                first = tirx.Select(best[0] < 0, k, best[0])
                better = tirx.any(best[0] < 0, score > scores[b, c, tirx.max(first, 0)])
                with T.If(tirx.all(*fits, better)):
                    with T.Then():
                        best[0] = tirx.Cast("int64", k)
            with T.If(best[0] >= 0):
                with T.Then():
                    chosen = tirx.max(best[0], tirx.const(0, "int64"))
                    for column, value in enumerate((b, c, chosen)):
                        rows[count[0], column] = tirx.Cast("int64", value)
                    count[0] = count[0] + 1
                    taken[0] = taken[0] + 1
                    dead[chosen] = tirx.const(1, "int32")
                    with T.serial(0, n) as k:
                        a, z = (_corners(boxes, b, at, centred) for at in (chosen, k))
                        with T.If(_overlap(a, z) > overlap[0]):
                            with T.Then():
                                dead[k] = tirx.const(1, "int32")


def _corners(boxes: Any, b: Any, k: Any, centred: bool) -> tuple[Any, Any, Any, Any]:
    """Return the lower and the upper corner of a box."""
    p, q, r, s = (boxes[b, k, column] for column in range(4))
    if centred:
        half = tirx.const(0.5, "float32")
        return p - r * half, q - s * half, p + r * half, q + s * half
    return tirx.min(p, r), tirx.min(q, s), tirx.max(p, r), tirx.max(q, s)


def _overlap(a: tuple[Any, ...], z: tuple[Any, ...]) -> Any:
    """Return the intersection over the union of two boxes; 0 if they do not intersect."""
    zero = tirx.const(0.0, "float32")
    sides = [tirx.min(a[k + 2], z[k + 2]) - tirx.max(a[k], z[k]) for k in (0, 1)]
    common = tirx.max(sides[0], zero) * tirx.max(sides[1], zero)
    areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (a, z)]
    union = areas[0] + areas[1] - common
    is_area = tirx.all(areas[0] > zero, areas[1] > zero, union > zero)
    return tirx.Select(is_area, common / union, zero)
