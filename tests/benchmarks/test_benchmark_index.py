"""Every benchmark runs by its short name and is listed with its page."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ROOMS, index
from benchmarks.common.pages import PAGES, add_page_option, write_below

NAMES = [(room, name) for room, commands in index.COMMANDS.items() for name in commands]


def runs_as(name: str) -> Path:
    """The file that `python -m benchmarks.NAME` runs."""
    spec = importlib.util.find_spec(f"benchmarks.{name}")
    assert spec is not None and spec.origin is not None, name
    origin = Path(spec.origin)
    return origin.with_name("__main__.py") if origin.name == "__init__.py" else origin


@pytest.mark.parametrize(("room", "name"), NAMES)
def test_a_command_runs_by_its_name_from_its_room(room: str, name: str) -> None:
    file = runs_as(name)
    assert file == index.source(room, name) and file.is_file()
    assert f"python -m benchmarks.{name}" in file.read_text()
    assert index.summary(room, name).endswith((".", "?"))


def test_every_command_is_listed() -> None:
    assert ROOMS == tuple(index.COMMANDS)
    known = {index.source(room, name) for room, name in NAMES}
    commands = {
        path
        for room in ROOMS
        for path in (Path(index.__file__).parent / room).rglob("*.py")
        if "    python -m benchmarks." in path.read_text()
    }
    assert commands - {index.source("analysis", "operators")} == known


def test_every_page_is_listed_and_names_its_command() -> None:
    pages = {page: name for commands in index.COMMANDS.values()
             for name, command in commands.items() for page in command.pages}  # fmt: skip
    assert {p.name for p in PAGES.glob("*.md")} == {*pages, "index.md"}
    for page, name in pages.items():
        assert f"python -m benchmarks.{name}" in (PAGES / page).read_text(), page


def test_the_index_is_current() -> None:
    assert (PAGES / "index.md").read_text() == index.page(), "run `python -m benchmarks --page`"


def test_a_page_is_written_below_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("prose\n\n<!-- mark -->\n\nold\n")
    write_below(path, "<!-- mark -->", "new\n")
    assert path.read_text() == "prose\n\n<!-- mark -->\n\nnew\n"
    with pytest.raises(ValueError, match="has no line '<!-- other -->'"):
        write_below(path, "<!-- other -->", "new\n")


def test_a_page_is_written_to_the_results_unless_a_file_is_given() -> None:
    parser = argparse.ArgumentParser()
    add_page_option(parser, "some.md")
    assert parser.parse_args(["--page"]).page == PAGES / "some.md"
    assert parser.parse_args(["--page", "x.md"]).page == Path("x.md")
    assert parser.parse_args([]).page is None


def test_what_sets_the_threads_is_imported_without_tvm() -> None:
    """TVM reads their number when it is loaded; `use_threads` raises where that is too late."""
    root = Path(index.__file__).parent
    texts = {path: path.read_text() for path in sorted(root.rglob("*.py"))}
    setting = [path.relative_to(root.parent).with_suffix("") for path, text in texts.items()
               if "import use_threads" in text or "parse_options(" in text]  # fmt: skip
    assert Path("benchmarks/shapes/cold") in setting
    code = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert "tvm" not in sys.modules, name
"""
    modules = [".".join(path.parts) for path in setting]
    done = subprocess.run([sys.executable, "-c", code, *modules], cwd=root.parent,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
