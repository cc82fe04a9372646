"""What nodes are drawn from: functions that try to add nodes to a graph, with their shares."""

from __future__ import annotations

from collections.abc import Callable

from ..graphs.graph import Graph
from . import (
    control,
    elementwise,
    indexing,
    integers,
    neural_layers,
    reductions,
    shaping,
    tensor_products,
)

#: Tries to add one or more nodes; the graph stays as it was if they are not legal.
Family = Callable[[Graph], None]

FAMILIES: dict[Family, int] = {
    elementwise.unary: 10,
    elementwise.activation: 5,
    elementwise.binary: 14,
    elementwise.comparison: 4,
    elementwise.selection: 5,
    elementwise.extremum: 3,
    elementwise.clip: 3,
    elementwise.cast: 7,
    integers.arithmetic: 6,
    integers.logic: 3,
    integers.bits: 2,
    integers.quantized: 5,
    integers.quantized_product: 3,
    neural_layers.convolution: 7,
    neural_layers.transposed: 3,
    neural_layers.pool: 6,
    neural_layers.norm: 7,
    neural_layers.softmax: 4,
    tensor_products.matmul: 6,
    tensor_products.gemm: 4,
    tensor_products.einsum: 2,
    reductions.reduce: 10,
    reductions.choice: 4,
    reductions.topk: 3,
    reductions.cumulative: 2,
    shaping.reshape: 8,
    shaping.transpose: 5,
    shaping.axes: 5,
    shaping.slices: 7,
    shaping.concat: 6,
    shaping.split: 4,
    shaping.pad: 4,
    shaping.expand: 4,
    shaping.blocks: 2,
    shaping.resize: 2,
    indexing.gather: 6,
    indexing.scatter: 4,
    indexing.one_hot: 1,
    indexing.triangle: 1,
    control.sizes: 8,
    control.branches: 4,
    control.constants: 4,
}
