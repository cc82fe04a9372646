"""The decisions in docs/adr have one form, and name files and names that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from .pages import DOCS, ROOT

DECISIONS = sorted((DOCS / "adr").glob("[0-9]*.md"))
#: Names of TVM, Python or other projects that opinfo does not use; the text says so.
FOREIGN = frozenset(
    "BufferType EliminateCommonSubexpr Hash LowerCrossThreadReduction LowerThreadAllreduce "
    "MetaScheduleApplyDatabase StructuralHash ThreadSync attributes cloudpickle ffi forkserver "
    "func map_free_vars multiprocessing psutil std tune_tir unordered_map without".split()
)
FOLDERS = ("analysis", "benchmarks", "byoc", "docs", "examples", "jit", "layout", "src", "tests")
FILE = re.compile(r"\.(cpp|hpp|js|md|py|toml|yml)$")


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_a_decision_has_a_number_and_its_consequences(page: Path) -> None:
    text = page.read_text()
    number = re.match(r"# (\d+)\. [A-Z]?", text)
    assert number and page.name.startswith(f"{int(number[1]):04}-")
    assert "\n**Decision" in text and "\n**Consequences.**" in text


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name[:4])
def test_paths_and_names_exist(page: Path) -> None:
    missing = [code for code in re.findall(r"`([^`\n]+)`", page.read_text()) if not _exists(code)]
    assert not missing


def test_missing_names_are_seen() -> None:
    assert _exists("analysis/lifting") and _exists("fold.py") and _exists("RaiseOps(prefer=...)")
    assert not any(map(_exists, ["analysis/relay", "hints.py", "Raise" + "Operators"]))


def _exists(code: str) -> bool:
    """Whether a path is in the repository, or all words of other code are in its sources."""
    files = _files()
    if FILE.search(code):
        return any(f"/{file}".endswith(f"/{code}") for file in files)
    if re.fullmatch(r"\w+(/\w+)+/?", code):
        return (ROOT / code).is_dir()
    return set(re.findall(r"[A-Za-z_]\w+", code)) - FOREIGN <= _words()


@cache
def _files() -> list[str]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*"))
    files = [path for path in (*ROOT.glob("*.*"), *inside) if path.is_file()]
    return [path.relative_to(ROOT).as_posix() for path in files]


@cache
def _words() -> frozenset[str]:
    """Every word of the sources; the decisions themselves and this file do not count."""
    here = Path(__file__).relative_to(ROOT)
    texts = (
        (ROOT / file).read_text()
        for file in _files()
        if file.endswith((".cpp", ".hpp", ".py", ".toml")) and Path(file) != here
    )
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w+", text))
