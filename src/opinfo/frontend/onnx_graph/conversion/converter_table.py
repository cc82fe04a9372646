"""The table of converters; one function converts one operator of one domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..onnx_node import OnnxNode

Converter = Callable[[OnnxNode], Any]
Kind = TypeVar("Kind", bound=Converter)
#: Domain of the operators that ONNX Runtime adds.
MICROSOFT = "com.microsoft"
#: Domain of ONNX's operators of classical machine learning.
ML = "ai.onnx.ml"
#: Domains that ONNX Runtime has for a model that imports no operator set of them.
RUNTIME_DOMAINS = (MICROSOFT, ML)
CONVERTERS: dict[tuple[str, str], Converter] = {}


def converts(*ops: str, domain: str = "") -> Callable[[Kind], Kind]:
    """Register a function for operators of a domain."""

    def register(function: Kind) -> Kind:
        for op in ops:
            CONVERTERS[domain, op] = function
        return function

    return register
