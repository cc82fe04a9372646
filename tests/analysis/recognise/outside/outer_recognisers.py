"""Recognisers of outer products: the right one, and how others are registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opinfo.analysis import (
    OpInfo,
    Proposal,
    Refusal,
    TensorExpression,
    recogniser,
)

OUTER = """
@T.prim_func(s_tir=True)
def main(a: T.Buffer((4,), "float32"), b: T.Buffer((5,), "float32"),
         c: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = a[vi] * b[vj]
"""
#: No operator is this.
UNKNOWN = OUTER.replace("a[vi] * b[vj]", "a[vi] * b[vj] * b[vj] + T.sin(b[vj])")
OPS = ("relax.outer",)


def right(f: TensorExpression) -> Sequence[Proposal] | Refusal:
    return [Proposal("relax.outer", (0, 1))]


def register(run: Any, name: str = "mine", precedence: int = 1, ops: tuple[str, ...] = OPS) -> None:
    recogniser(name, precedence=precedence, ops=ops)(run)


def named(info: OpInfo | Refusal) -> str:
    return info.name if isinstance(info, OpInfo) else ""
