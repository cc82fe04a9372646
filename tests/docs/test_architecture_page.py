"""The walks of docs/architecture.md name files and functions that exist, in few steps."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .pages import DOCS, ROOT

TEXT = (DOCS / "architecture.md").read_text()
PLACES = sorted(set(re.findall(r"`([\w/.]+\.(?:py|hpp))(?:::(\w+))?`", TEXT)))
WALKS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("file, name", PLACES)
def test_the_place_exists(file: str, name: str) -> None:
    path = ROOT / file
    assert path.is_file()
    assert not name or name in _names(path)


def _names(path: Path) -> set[str]:
    """The functions and classes at the top of a file; of C++ every name that is called."""
    text = path.read_text()
    if path.suffix == ".hpp":
        return set(re.findall(r"(\w+)\(", text))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(text).body if isinstance(node, kinds)}


def test_four_walks_of_at_most_eight_steps() -> None:
    assert len(WALKS) == 4
    for walk in WALKS:
        steps = re.findall(r"^\d+\. ", walk, re.MULTILINE)
        assert 3 <= len(steps) <= 8
        assert all("::" in step for step in re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:3])


def test_the_picture_is_text_that_needs_nothing_else() -> None:
    picture = (DOCS / "images" / "architecture.svg").read_text()
    assert picture.startswith("<svg") and "href" not in picture and "<script" not in picture
