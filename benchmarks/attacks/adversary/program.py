"""A generated program, with what the generator knows about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"


@dataclass(frozen=True)
class Program:
    """TVMScript, the number of inputs among its parameters, and facts about them.

    ``places`` maps inputs that are used as indices to their ranges; ``races`` says that parallel
    iterations may store to the same element, ``broken`` that a TVM pass drops part of the program.
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
    """Return a program from parameters ``(name, shape, dtype)``, the output last, and its lines."""
    types = (f"{name}: T.Buffer({shape!r}, {dtype!r})" for name, shape, dtype in params)
    text = f"def main({', '.join(types)}):\n" + "".join(f"    {line}\n" for line in body)
    return Program(family, HEADER + text, len(params) - 1, **fields)
