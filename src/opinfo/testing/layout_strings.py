"""Check layout strings of an answer against TVM and the index maps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tvm import s_tir, tirx

from ..analysis import LayoutNormalised, OpInfo
from ..analysis.results.op_info import STRINGS
from ..analysis.support.tvm_compat import sym

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def faults(answer: OpInfo | LayoutNormalised) -> list[str]:
    """Return strings that TVM does not parse, or reads as a different map."""
    out = [text for text in _strings(answer) if not parses(text)]
    maps = answer if isinstance(answer, LayoutNormalised) else answer.relayout
    if maps is not None and not out:
        rng = random.Random(0)
        for text, usual, buffer in zip(
            maps.layouts, maps.logical.layouts, maps.buffers, strict=True
        ):
            if text and buffer is not None and not _means(text, usual, buffer, rng):
                out.append(f"{text} for {buffer}")
    return out


def parses(text: str) -> bool:
    """Return whether TVM parses a layout string, with a dimension for each letter."""
    try:
        return len(s_tir.slayout(text)) == sum(c.isalpha() for c in text)
    except (RuntimeError, TypeError):
        return False


def _strings(answer: OpInfo | LayoutNormalised) -> Iterator[str]:
    yield from filter(None, answer.layouts)
    op = answer if isinstance(answer, OpInfo) else answer.logical
    for info in (op, *op.alternatives):
        yield from filter(None, info.layouts)
        yield from (str(info.attrs[k]) for k in info.attrs.keys() & STRINGS.keys())


def _means(text: str, usual: str, buffer: Any, rng: random.Random) -> bool:
    """Compare a layout string with its map at random coordinates.

    TVM has no map for a string that omits axes of extent 1.
    """
    shape = list(buffer.shape)
    usual = usual or LETTERS[: len(shape)]
    if not all(isinstance(e, int) for e in shape) or sorted(usual) != sorted(
        letter for letter in text if letter.isupper()
    ):
        return True
    theirs, prove = s_tir.sbijective_layout(usual, text), sym.Analyzer()
    for _ in range(8):
        at = [rng.randrange(e) for e in shape]
        expected = theirs.forward_index([tirx.IntImm("int32", k) for k in at])
        got = buffer.index_map.map_indices([tirx.IntImm("int64", k) for k in at])
        if [int(prove.simplify(e)) for e in expected] != [int(prove.simplify(e)) for e in got]:
            return False
    return True
