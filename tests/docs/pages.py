"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: Folders whose snippets somebody else runs, or that describe a decision of their day.
ELSEWHERE = ("adr", "results", "tutorials")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of the page that it starts at.

    ``title``: the file that it is from, or "".
    """

    language: str
    text: str
    line: int
    title: str = ""


def pages() -> list[Path]:
    """README and every page of docs/ whose snippets are run here."""
    found = [p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in ELSEWHERE]
    return [ROOT / "README.md", *sorted(found)]


def name(page: Path) -> str:
    """The page's path from the root."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(m[1], m[3], text.count("\n", 0, m.start()) + 2, _title(m[2]))
        for m in FENCE.finditer(text)
    ]


def _title(info: str) -> str:
    found = re.search(r'title="([^"]+)"', info)
    return found[1] if found else ""
