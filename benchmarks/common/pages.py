"""The pages of results: their folder, the option that writes one, tables in Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "results"


def add_page_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Add `--page [FILE]`; without FILE it is the page of this name in docs/results."""
    parser.add_argument(
        "--page", metavar="FILE", type=Path, nargs="?", const=PAGES / name,
        help=f"write the page, to docs/results/{name} unless FILE is given",
    )  # fmt: skip


def write_below(path: Path, mark: str, text: str) -> None:
    """Replace the text after `mark` in a page; the prose above it stays."""
    above, separator, _ = path.read_text(encoding="utf-8").partition(mark)
    if not separator:
        raise ValueError(f"{path} has no line {mark!r} to write below; add it")
    path.write_text(f"{above}{mark}\n\n{text}", encoding="utf-8")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
