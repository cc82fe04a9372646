"""A program that was generated, with what its author knows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"


@dataclass(frozen=True)
class Program:
    """TVMScript, how many of the parameters are inputs, and what is known of them.

    ``places`` gives the range of an input that decides a place; ``races`` says that iterations
    that run at the same time may store in one element, ``broken`` that a pass of TVM drops a part.
    """

    family: str
    source: str
    inputs: int
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    races: bool = False
    broken: bool = False


def written(
    family: str, params: list[tuple[str, Any, str]], body: list[str], **fields: Any
) -> Program:
    """A program of parameters ``(name, shape, dtype)``, the last one written, and its lines."""
    types = (f"{name}: T.Buffer({shape!r}, {dtype!r})" for name, shape, dtype in params)
    text = f"def main({', '.join(types)}):\n" + "".join(f"    {line}\n" for line in body)
    return Program(family, HEADER + text, len(params) - 1, **fields)
