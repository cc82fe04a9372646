"""Relax operators that can be written as ONNX."""

from __future__ import annotations

from collections.abc import Mapping

from ...patterns.pattern import Condition, one
from ...patterns.subgraphs import Coarse
from .arithmetic.elementwise import ELEMENTWISE
from .arithmetic.linear_quantization import QUANTIZED
from .arithmetic.products import PRODUCTS
from .arithmetic.recurrent_layers import RECURRENT
from .arithmetic.reductions import REDUCTIONS
from .graph.onnx_conditions import OnnxOperator, nonempty
from .movement.indexing import INDEXING
from .movement.shapes import SHAPES
from .spatial.convolutions import CONVOLUTIONS
from .spatial.image_resize import RESIZE
from .spatial.pools import POOLS

#: Each operator that can be written.
OPERATORS: Mapping[str, OnnxOperator] = {
    **ELEMENTWISE, **SHAPES, **INDEXING, **REDUCTIONS, **CONVOLUTIONS, **POOLS, **PRODUCTS,
    **QUANTIZED, **RESIZE, **RECURRENT,
}  # fmt: skip


def network(*conditions: Condition, without: tuple[str, ...] = ()) -> Coarse:
    """The pattern of subgraphs of these operators.

    Args:
        conditions: What a runtime demands of all operators.
        without: Operators that the runtime lacks.
    """
    alike: dict[tuple[tuple[Condition, ...], bool], list[str]] = {}
    for name, operator in OPERATORS.items():
        if name not in without:
            alike.setdefault((operator.conditions, operator.several), []).append(name)
    steps = (one(names, nonempty, *own, *conditions, several=several)
             for (own, several), names in alike.items())  # fmt: skip
    return Coarse("network", *steps)
