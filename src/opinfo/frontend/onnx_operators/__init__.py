"""Converters from ONNX operators to Relax, one module a family; importing registers them."""

from __future__ import annotations

from ..onnx_graph.control_flow import control, optionals, scans, sequences
from ..onnx_graph.conversion.converter_table import CONVERTERS
from ..tabular import feature_rows, ngram_counts, trees
from . import (
    activations,
    bit_casts,
    channels_last,
    contributed,
    contributed_quantized,
    convolution,
    deformable,
    elementwise_operators,
    pools,
    products,
    quantize_linear,
    quantized,
    spectral,
    transposed,
)
from .arithmetic import extrema, powers, quotients, square_matrices, sums_and_norms
from .attention import (
    decoder_step,
    distance_bias,
    grouped_query,
    multi_head,
    packed_tokens,
    rotary_heads,
    sparse_blocks,
)
from .contributions import bias_layers, bias_softmax
from .detection import crop_and_resize, roi_align, suppression
from .experts import mixture, packed_mixture
from .indexing import index_operators
from .norms import channel_norms, embedding_norm, image_norms, normalization
from .packed_weights import bnb4, nbits
from .recurrence import causal_convolution, dynamic_lstm, linear_attention, recurrent
from .shaping import counting, grids, padded_tensors, resizing, shapes, slices

__all__ = [
    "CONVERTERS", "activations", "bias_layers", "bias_softmax", "bit_casts", "bnb4",
    "causal_convolution", "channel_norms", "channels_last", "contributed", "contributed_quantized",
    "control", "convolution", "counting", "crop_and_resize", "decoder_step", "deformable",
    "distance_bias", "dynamic_lstm", "elementwise_operators", "embedding_norm", "extrema",
    "feature_rows", "grids", "grouped_query", "image_norms", "index_operators", "linear_attention",
    "mixture", "multi_head", "nbits", "ngram_counts", "normalization", "optionals",
    "packed_mixture", "packed_tokens", "padded_tensors", "pools", "powers", "products",
    "quantize_linear", "quantized", "quotients", "recurrent", "resizing", "roi_align",
    "rotary_heads", "scans", "sequences", "shapes", "slices", "sparse_blocks", "spectral",
    "square_matrices", "sums_and_norms", "suppression", "transposed", "trees",
]  # fmt: skip
