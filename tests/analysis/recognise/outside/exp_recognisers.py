"""Recognisers of exponentials, and what their failures look like."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from tvm import tirx

from opinfo.analysis import (
    Chain,
    OpInfo,
    Proposal,
    RecogniserWarning,
    Refusal,
    op_info,
    op_infos,
    recogniser,
)

UNARY = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        out[i, j] = {value}
"""
OPS = ("relax.exp",)
RIGHT = Proposal("relax.exp", (0,))


def register(run: Any, ops: tuple[str, ...] = OPS, **options: Any) -> None:
    recogniser("mine", precedence=1, ops=ops, **options)(run)


def reason(func: tirx.PrimFunc) -> str:
    """Of the refusal, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecogniserWarning)
        info = op_info(func)
    assert isinstance(info, Refusal)
    return info.reason


def check_failure(exp: tirx.PrimFunc, unknown: tirx.PrimFunc, expected: str) -> None:
    """The others answer, and the refusal of what nobody knows names the failure."""
    with pytest.warns(RecogniserWarning, match="recogniser 'mine' failed"):
        info = op_info(exp)
    assert isinstance(info, OpInfo) and info.name == "relax.exp"
    chain = op_infos(exp)
    assert isinstance(chain, Chain) and chain.names == OPS
    text = reason(unknown)
    assert text.startswith("recogniser 'mine' failed: ") and expected in text
