"""Every benchmark runs by its short name and is listed with its page."""

from __future__ import annotations

import argparse
import importlib.util
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
