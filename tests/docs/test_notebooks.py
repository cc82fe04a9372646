"""Tutorials run as notebooks: a cell that fails is an error, and a page shows what a cell prints.

The tutorials themselves run when the site is built, strictly.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from docs import notebooks
from nbclient.exceptions import CellExecutionError

from .pages import ROOT

FOLDER = ROOT / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("[0-9]*.py"))


def test_a_page_has_text_code_and_output(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("# %% [markdown]\n# # Title\n\n# %%\nprint(6 * 7)\n")
    text = notebooks.page(notebooks.execute(tmp_path / "x.py"), "x")
    assert text.startswith("# Title\n\n[Download this notebook](x.ipynb)")
    assert "```python\nprint(6 * 7)\n```" in text and "\n    42\n" in text


def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("# %%\n1 + 1\n\n# %%\nassert 1 + 1 == 3, 'sum'\n")
    with pytest.raises(CellExecutionError, match=r"AssertionError.*sum"):
        notebooks.executed([tmp_path / "x.py"])


def test_cells_are_only_shown_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPINFO_TUTORIALS", "0")
    (tmp_path / "x.py").write_text("# %%\nraise ValueError\n")
    (notebook,) = notebooks.executed([tmp_path / "x.py"])
    assert notebook.cells[0].source == "raise ValueError" and not notebook.cells[0].outputs


def test_tutorials_are_numbered_and_listed() -> None:
    assert [int(t.stem[:2]) for t in TUTORIALS] == list(range(1, len(TUTORIALS) + 1))
    index = (FOLDER / "index.md").read_text()
    assert all(f"({t.stem}.md)" in index for t in TUTORIALS)


@pytest.mark.parametrize("tutorial", [t.stem for t in TUTORIALS])
def test_a_tutorial_checks_what_it_says_and_leads_on(tutorial: str) -> None:
    text = (FOLDER / f"{tutorial}.py").read_text()
    nodes = list(ast.walk(ast.parse(text)))
    checks = sum(isinstance(n, ast.Assert) for n in nodes) + text.count("np.testing.assert_")
    assert checks >= 3
    assert "# ## Next steps\n" in text.rpartition("# %% [markdown]")[2]
