"""A writer of ONNX graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...backend.region import Array


class GraphWriter:
    """Nodes and constants of one region; names are ``v<number>``."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.count = 0

    def node(self, op: str, inputs: Iterable[str], **attrs: Any) -> str:
        from onnx import helper

        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attrs))
        return out

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, array: Array) -> str:
        from onnx import numpy_helper

        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def ints(self, values: Iterable[Any]) -> str:
        return self.constant(np.asarray([int(v) for v in values], "int64"))

    def scalar(self, value: Any, dtype: str) -> str:
        return self.constant(np.asarray(float(value), dtype))
