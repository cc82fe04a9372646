"""Composites: operators of the project's own, each defined by Relax operators.

A composite is registered with TVM as any operator. Its type, its lowering to one PrimFunc, its
constructor and its documentation come from one Python function, the definition.
"""

from .attention import grouped_attention
from .composite import composite
from .grouped import group_dequantize, group_quantize
from .products import transposed_matmul
from .rotary import apply_rotary_embedding, rotary_embedding

__all__ = [
    "apply_rotary_embedding",
    "composite",
    "group_dequantize",
    "group_quantize",
    "grouped_attention",
    "rotary_embedding",
    "transposed_matmul",
]
