"""Check the options of a benchmark before it measures anything: one line says what is wrong."""

from __future__ import annotations

import argparse
import difflib
import json
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

#: How many names that are near to an unknown one are shown.
NEAR = 4


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """Return the type of an option that is a known name; an error suggests near names."""

    def name(text: str) -> str:
        if text in known:
            return text
        parts = [n for n in known if text and text.lower() in n.lower()]
        near = list(dict.fromkeys([*parts, *difflib.get_close_matches(text, known, NEAR)]))[:NEAR]
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {len(known)} names"
        raise argparse.ArgumentTypeError(f"unknown name {text[:80]!r}: {hint}")

    return name


def count(text: str) -> int:
    """Return the value of an option that is a positive integer."""
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 1024:
        raise argparse.ArgumentTypeError(f"expected 1 to 1024, got {text[:80]!r}")
    return int(text)


def rows_file(text: str) -> Path:
    """Return the file of an option that keeps rows: it can be written, and has rows or nothing."""
    path = Path(text)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stored_rows(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path}: expected rows of a benchmark: {error}") from None
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path}: it cannot be written")
    return path


def stored_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by key; none if it does not exist. Raises ``ValueError``."""
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        raise ValueError("it has no object of objects")
    return rows
