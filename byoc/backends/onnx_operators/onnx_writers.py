"""Relax operators that can be written as ONNX."""

from __future__ import annotations

from collections.abc import Mapping

from ...patterns.pattern import Condition, one
from ...patterns.subgraphs import Coarse
from .convolutions import CONVOLUTIONS
from .elementwise import ELEMENTWISE
from .image_resize import RESIZE
from .indexing import INDEXING
from .linear_quantisation import QUANTISED
from .onnx_conditions import OnnxOperator, nonempty
from .pools import POOLS
from .products import PRODUCTS
from .recurrent_layers import RECURRENT
from .reductions import REDUCTIONS
from .shapes import SHAPES

#: Each operator that can be written.
OPERATORS: Mapping[str, OnnxOperator] = {
    **ELEMENTWISE, **SHAPES, **INDEXING, **REDUCTIONS, **CONVOLUTIONS, **POOLS, **PRODUCTS,
    **QUANTISED, **RESIZE, **RECURRENT,
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
