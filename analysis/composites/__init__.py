"""Composites: operators of the project's own, each defined by Relax operators.

A composite is registered with TVM as any operator. Its type, its lowering to one PrimFunc, its
constructor and its documentation come from one Python function, the definition.
"""

from .composite import composite
from .grouped import group_dequantize, group_quantize

__all__ = ["composite", "group_dequantize", "group_quantize"]
