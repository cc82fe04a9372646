"""A generated program, with what the generator knows about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"


@dataclass(frozen=True)
class Program:
    """TVMScript, the number of inputs among its parameters, and facts about them.

    ``places`` maps inputs that are used as indices to their ranges; ``races`` says that parallel
    iterations may store to the same element, ``broken`` that a TVM pass drops part of the program.
    ``sizes`` are the names of symbolic sizes.
    """

    family: str
    source: str
    inputs: int
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    races: bool = False
    broken: bool = False
    sizes: tuple[str, ...] = ()


def written(
    family: str, params: list[tuple[str, Any, str]], body: list[str], **fields: Any
) -> Program:
    """Return a program from parameters ``(name, shape, dtype)``, the output last, and its lines."""
    types = (f"{name}: T.Buffer({shape!r}, {dtype!r})" for name, shape, dtype in params)
    text = f"def main({', '.join(types)}):\n" + "".join(f"    {line}\n" for line in body)
    return Program(family, HEADER + text, len(params) - 1, **fields)


def symbolic(
    family: str,
    operands: dict[str, tuple[str, ...]],
    shape: tuple[str, ...],
    body: list[str],
    numbers: tuple[str, ...] = (),
    dtypes: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """Return a program over symbolic sizes: extents are text over ``n``, ``m`` and ``numbers``."""
    params = {**operands, "out": shape}
    words = set(re.findall(r"[a-z]+", " ".join(e for extents in params.values() for e in extents)))
    sizes = tuple(v for v in ("n", "m") if v in words)
    lines = ['T.func_attr({"tirx.noalias": True})', *(f"{v} = T.int64()" for v in sizes)]
    for name, extents in params.items():
        dtype = dtypes.get(name, "float32")
        dims = "".join(f"{e}, " for e in extents)
        lines.append(f"{name} = T.match_buffer(p_{name}, ({dims}), {dtype!r})")
    types = [*(f"{k}: T.int64" for k in numbers), *(f"p_{name}: T.handle" for name in params)]
    text = f"def main({', '.join(types)}):\n" + "".join(f"    {s}\n" for s in (*lines, *body))
    return Program(family, HEADER + text, len(operands), sizes=(*sizes, *numbers))
