"""EmbedLayerNormalization: the embedding of BERT, normalised."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ...onnx_graph.contributed_attributes import check_attributes
from ...onnx_graph.conversion.converter_table import MICROSOFT, converts
from ...onnx_graph.onnx_node import OnnxNode


@converts("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: OnnxNode) -> list[Any]:
    """Add the embeddings of words, positions and segments, and normalise.

    The second result counts the ones of the mask, or is 0; the third is the sum.
    """
    check_attributes(node, "epsilon mask_index_type", {})
    batch, length = node.shape(0)
    words = node.emit(relax.op.take(node.tensor(2), node.tensor(0), 0))
    if node.has(8):
        places = node.cast_shape(node.tensor(8), [1 if node.shape(8)[0] == 1 else batch, length])
        positions = node.emit(relax.op.take(node.tensor(3), places, 0))
    else:
        node.require(node.shape(3)[0] >= length)
        positions = node.emit(relax.op.strided_slice(node.tensor(3), [0], [0], [length], [1],
                                                     assume_inbound=True))  # fmt: skip
    total = node.emit(relax.op.add(words, positions))
    if node.has(1) != node.has(4):
        node.refuse("segment_ids or segment_embedding is missing, expected both or none")
    if node.has(1):
        segments = node.cast_shape(node.tensor(1), [batch, length])
        chosen = node.emit(relax.op.take(node.tensor(4), segments, 0))
        total = node.emit(relax.op.add(total, chosen))
    epsilon = float(node.attr("epsilon", 1e-12))
    result = relax.op.nn.layer_norm(total, node.tensor(5), node.tensor(6), [-1], epsilon)
    counts = _counts(node, batch) if node.wants(1) else None
    return [result, counts, total]


def _counts(node: OnnxNode, batch: Any) -> Any:
    """Return how many elements of each row of the mask are 1."""
    if not node.has(7):
        return relax.op.zeros([batch], "int32")
    ones = node.emit(relax.op.equal(node.tensor(7), relax.const(1, node.dtype(7))))
    return relax.op.sum(node.emit(relax.op.astype(ones, "int32")), 1)
