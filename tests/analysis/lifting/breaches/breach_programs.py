"""Programs of one input and one output of 8 elements."""

from __future__ import annotations

from typing import Any

import tvm

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"


def program(body: str) -> Any:
    head = 'def main(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):\n'
    return tvm.script.from_source(HEADER + head + body.lstrip("\n"))
