"""A command that takes a dataclass has an option for each of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from opinfo.cli.options.option_fields import with_options


@dataclass(frozen=True, kw_only=True)
class Colours:
    red: Annotated[int, typer.Option(max=255)] = 7
    names: Annotated[list[str] | None, typer.Option("--name")] = None


@dataclass(frozen=True, kw_only=True)
class Paint:
    wall: Annotated[str, typer.Argument()]
    colours: Colours
    dry: Annotated[bool, typer.Option()] = True


def _app(painted: list[Paint]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @with_options
    def paint(options: Paint) -> None:
        """Paint a wall."""
        painted.append(options)

    return app


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("north", Paint(wall="north", colours=Colours())),
        (
            "north --red 3 --name a --name b --no-dry",
            Paint(wall="north", colours=Colours(red=3, names=["a", "b"]), dry=False),
        ),
    ],
    ids=["defaults", "all"],
)
def test_values_become_fields(words: str, expected: Paint) -> None:
    painted: list[Paint] = []
    result = CliRunner().invoke(_app(painted), words.split())
    assert result.exit_code == 0, result.output
    assert painted == [expected]


@pytest.mark.parametrize("words", ["", "north --red 256", "north --colours red"])
def test_the_annotations_are_checked(words: str) -> None:
    painted: list[Paint] = []
    assert CliRunner().invoke(_app(painted), words.split()).exit_code == 2
    assert painted == []


def test_options_have_the_order_of_the_fields() -> None:
    command = typer.main.get_command(_app([]))
    assert command.help == "Paint a wall." and command.name == "paint"
    assert [p.name for p in command.params][:4] == ["wall", "red", "names", "dry"]
