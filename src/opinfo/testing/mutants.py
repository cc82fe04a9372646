"""Mutants of a PrimFunc: one token of its script is changed at a time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import tvm

HEADER = "# from tvm.script import tirx as T\n"
NUMBER = re.compile(r"T\.int64\((\d+)\)")
FLOAT = re.compile(r"T\.float32\((-?[\d.e+-]+)\)")
WORDS = {
    " < ": " <= ", " <= ": " < ", " + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ",
    "T.max(": "T.min(", "T.min(": "T.max(", "T.exp(": "T.tanh(", "T.sqrt(": "T.exp(",
    " // ": " % ", " % ": " // ", " and ": " or ", " or ": " and ", " == ": " != ",
    "T.rsqrt(": "T.sqrt(", "T.tanh(": "T.erf(", "T.erf(": "T.tanh(", "T.log(": "T.exp(",
    "T.sigmoid(": "T.exp(", "T.fabs(": "T.exp(", "T.floor(": "T.ceil(", " != ": " == ",
    "T.round(": "T.floor(", "T.nearbyint(": "T.floor(", "T.bool(True)": "T.bool(False)",
    "T.min_value(": "T.max_value(", "T.max_value(": "T.min_value(", "not ": "",
}  # fmt: skip


#: Where a script changes, and to what: ``(start, end, replacement)``.
Change = tuple[int, int, str]


def mutants(func: Any, end: int | None = None) -> Iterator[tuple[str, Any]]:
    """Yield ``(change, PrimFunc)`` in a shuffled but reproducible order.

    Changes that do not parse are skipped.

    Args:
        func: The PrimFunc.
        end: The place in the script where changes end; None for its end.
    """
    text = func.script()
    for (start, stop, new), mutant in edited(text, changes_of(text, end)):
        line = text.count("\n", 0, start) + 1
        yield f"line {line}: {text[start:stop]!r} to {new!r}", mutant


def changes_of(text: str, end: int | None = None) -> list[Change]:
    """Return the changes that `mutants` makes of a script, in the same order.

    Args:
        text: The script of a PrimFunc.
        end: The place in the script where changes end; None for its end.
    """
    changes = [c for c in _changes(text) if end is None or c[1] <= end]
    random.Random(0).shuffle(changes)
    return changes


def edited(text: str, changes: Iterable[Change]) -> Iterator[tuple[Change, Any]]:
    """Yield each change of a script with what it makes of it; those that do not parse are skipped.

    Args:
        text: The script of a PrimFunc.
        changes: ``(start, end, replacement)`` each.
    """
    for start, end, new in changes:
        try:
            mutant = parsed(text[:start] + new + text[end:])
        except Exception:  # the parser's own errors have no common type
            continue
        yield (start, end, new), mutant


def _changes(text: str) -> list[Change]:
    """Return ``(start, end, replacement)`` in the order of the script."""
    body = text.index("# with T.sblock") if "# with T.sblock" in text else text.index("def ")
    kinds = (_edits, _swaps, _guards, _operands, _statements)
    return sorted({c for kind in kinds for c in kind(text, body)})


def parsed(text: str) -> Any:
    return tvm.script.from_source(HEADER + text)


def _edits(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    for line_start, line in _lines(text, body):
        for match in NUMBER.finditer(line):
            for number in {int(match[1]) + 1, max(int(match[1]) - 1, 0)} - {int(match[1])}:
                yield line_start + match.start(), line_start + match.end(), f"T.int64({number})"
        for match in FLOAT.finditer(line):
            value = float(match[1]) * 1.5 if float(match[1]) else 1.0
            yield line_start + match.start(), line_start + match.end(), f"T.float32({value!r})"
        for old, new in WORDS.items():
            for match in re.finditer(re.escape(old), line):
                yield line_start + match.start(), line_start + match.end(), new


def _swaps(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    """Exchange neighbouring indices of an access, and the operands of a difference or quotient."""
    for line_start, line in _lines(text, body):
        for match in re.finditer(r"(?<=[\[ ])(v_\w+), (v_\w+)(?=[,\]])", line):
            yield line_start + match.start(), line_start + match.end(), f"{match[2]}, {match[1]}"
        for match in re.finditer(r"(\w+\[[^\[\]]*\]) ([-/]) (\w+\[[^\[\]]*\])", line):
            yield (
                line_start + match.start(),
                line_start + match.end(),
                f"{match[3]} {match[2]} {match[1]}",
            )


def _guards(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    """Drop a conjunct; read one element before or after."""
    for line_start, line in _lines(text, body):
        for match in re.finditer(r" and [^(),\[\]]+(?=[,)])", line):
            yield line_start + match.start(), line_start + match.end(), ""
        for match in re.finditer(r"(?<=[\[ ])(v_\w+)(?=[,\]])", line.partition(" = ")[2]):
            place = line_start + line.index(" = ") + 3
            for sign in "+-":
                yield place + match.start(), place + match.end(), f"{match[1]} {sign} T.int64(1)"


def _operands(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    """Replace a read buffer by the one read before it."""
    last = ""
    for line_start, line in _lines(text, body):
        _, equals, value = line.partition("] = ")
        place = line_start + len(line) - len(value)
        for match in re.finditer(r"\b(\w+)(?=\[)", value if equals else ""):
            if last not in ("", match[1]):
                yield place + match.start(), place + match.end(), last
            last = match[1]


STORE = re.compile(r"^( +)(\w+\[[^=]*\] = .*)\n", re.M)


def _statements(text: str, body: int) -> Iterator[tuple[int, int, str]]:
    """Drop a store; exchange two stores that follow each other."""
    stores = list(STORE.finditer(text, body))
    for match in stores:
        yield match.start(2), match.end(2), "T.evaluate(0)"
    for first, second in pairwise(stores):
        if first.end() == second.start() and first[1] == second[1]:
            yield first.start(2), second.end(2), f"{second[2]}\n{second[1]}{first[2]}"


def _lines(text: str, body: int) -> Iterator[tuple[int, str]]:
    """Yield lines that compute or loop, without declarations of reads and writes."""
    place = body
    for line in text[body:].splitlines(keepends=True):
        if not any(w in line for w in ("T.reads", "T.writes", "T.axis", "alloc_buffer", "sblock(")):
            yield place, line
        place += len(line)
