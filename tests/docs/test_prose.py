"""Links of pages outside the site, and the words that the glossary replaced."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import DOCS, FENCE, ROOT, name, pages

#: The site checks its own links; these pages are read in the repository.
OUTSIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
#: What the field has a word for, or what is not English.
REPLACED = (
    "comprehension", "relaid", "relaying", "witness", "told", "tells of", "element by element",
    "by itself", "joint problem", "stagewise", "mend", "mends", "is no", "as it is",
    "coarse region",
)  # fmt: skip

PROSE = [*pages(), *(DOCS / "adr").glob("*.md"), *(ROOT / page for page in OUTSIDE[1:])]


@pytest.mark.parametrize("page", OUTSIDE)
def test_links_into_the_tree(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", (ROOT / page).read_text()))
    broken = [x for x in links if ":" not in x and not (ROOT / x).exists()]
    assert not broken


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_pictures_are_small() -> None:
    assert all(p.stat().st_size < 200_000 for p in (DOCS / "images").iterdir())


def test_the_glossary_is_alphabetical() -> None:
    words = re.findall(r"^\*\*(.+?)\.\*\*", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 50
    assert words == sorted(words, key=str.lower)


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_no_word_that_was_replaced(page: Path) -> None:
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", FENCE.sub("", page.read_text()))
    found = [w for w in REPLACED if re.search(rf"(?<!there )\b{w}\b", prose, re.IGNORECASE)]
    assert not found, f"{name(page)}: see docs/glossary.md and use its words"
