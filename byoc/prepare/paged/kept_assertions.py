"""Assertions about scalar parameters, which stay when a PrimFunc gets another body."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from ....analysis.blocks.tir import loads, mentions
from ....analysis.lifting.tir.node import NodeDict, items


def kept_assertions(func: Any) -> list[Any]:
    """The assertions about scalar parameters in a PrimFunc, such as of the rotary mode."""
    known: NodeDict[bool] = NodeDict()
    for param in items(func.params):
        known[param] = True
    found: list[Any] = []

    def visit(node: Any) -> None:
        names = mentions(node.condition).items()
        if names and not loads(node.condition) and all(known.get(var) for var, _ in names):
            found.append(node)

    tvm_ffi.structural_walk(func.body, (tirx.AssertStmt, visit))
    return found
