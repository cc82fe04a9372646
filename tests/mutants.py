"""Programs that are nearly an operator: one token of a PrimFunc's script is changed at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tvm

HEADER = "# from tvm.script import tirx as T\n"
NUMBER = re.compile(r"T\.int64\((\d+)\)")
FLOAT = re.compile(r"T\.float32\((-?[\d.e+-]+)\)")
WORDS = {
    " < ": " <= ", " <= ": " < ", " + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ",
    "T.max(": "T.min(", "T.min(": "T.max(", "T.exp(": "T.tanh(", "T.sqrt(": "T.exp(",
    " // ": " % ", " % ": " // ", " and ": " or ",
}  # fmt: skip


def mutants(func: Any) -> Iterator[tuple[str, Any]]:
    """``(what was changed, PrimFunc)``; changes that do not parse are left out."""
    text = func.script()
    body = text.index("# with T.sblock") if "# with T.sblock" in text else text.index("def ")
    for start, end, new in [*_edits(text, body), *_swaps(text, body)]:
        changed = text[:start] + new + text[end:]
        line = text.count("\n", 0, start) + 1
        try:
            yield f"line {line}: {text[start:end]!r} to {new!r}", parsed(changed)
        except Exception:  # the parser's own errors have no common type
            continue


def parsed(text: str) -> Any:
    return tvm.script.from_source(HEADER + text)


def _edits(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    for line_start, line in _lines(text, body):
        for m in NUMBER.finditer(line):
            for number in {int(m[1]) + 1, max(int(m[1]) - 1, 0)} - {int(m[1])}:
                yield line_start + m.start(), line_start + m.end(), f"T.int64({number})"
        for m in FLOAT.finditer(line):
            value = float(m[1]) * 1.5 if float(m[1]) else 1.0
            yield line_start + m.start(), line_start + m.end(), f"T.float32({value!r})"
        for old, new in WORDS.items():
            for m in re.finditer(re.escape(old), line):
                yield line_start + m.start(), line_start + m.end(), new


def _swaps(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    """Exchange neighbouring indices of an access, and the operands of a difference or quotient."""
    for line_start, line in _lines(text, body):
        for m in re.finditer(r"(?<=[\[ ])(v_\w+), (v_\w+)(?=[,\]])", line):
            yield line_start + m.start(), line_start + m.end(), f"{m[2]}, {m[1]}"
        for m in re.finditer(r"(\w+\[[^\[\]]*\]) ([-/]) (\w+\[[^\[\]]*\])", line):
            yield line_start + m.start(), line_start + m.end(), f"{m[3]} {m[2]} {m[1]}"


def _lines(text: str, body: int) -> Iterator[tuple[int, str]]:
    """Lines that compute or loop, not declarations of what they read and write."""
    place = body
    for line in text[body:].splitlines(keepends=True):
        if not any(w in line for w in ("T.reads", "T.writes", "T.axis", "alloc_buffer", "sblock(")):
            yield place, line
        place += len(line)
