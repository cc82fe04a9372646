"""Write docs/reference/command-line.md from the commands themselves.

python -m tests.docs.command_line
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from opinfo.cli import app

from .pages import DOCS

PAGE = DOCS / "reference" / "command-line.md"
HEAD = """# Command line

<!-- written by `python -m tests.docs.command_line` -->

`opinfo COMMAND --help` prints the same text. The exit status is 0 on success, 2 with a one-line
error that you can fix, 130 after an interrupt, and 1 for a bug in opinfo or where a command says
so. Results go to standard output; progress and warnings go to standard error.
"""


def page() -> str:
    """The whole page."""
    root = typer.main.get_command(app)
    parts = [HEAD, "## Options of every command\n\n" + _table(root)]
    parts += [_section(words, command) for words, command in _commands(root)]
    return "\n".join(parts)


def _commands(group: Any, words: tuple[str, ...] = ("opinfo",)) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if not command.hidden:
            if hasattr(command, "commands"):
                yield from _commands(command, (*words, name))
            else:
                yield " ".join((*words, name)), command


def _section(words: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(
        [words, *((p.metavar or p.name or "").upper() for p in arguments), "[OPTIONS]"]
    )
    lines = (line.strip() for line in inspect.cleandoc(command.help or "").splitlines())
    text = re.sub(r"\f", "", "\n".join(lines))
    return f"## {words}\n\n```text\n{usage}\n```\n\n{text}\n\n{_table(command)}"


def _table(command: Any) -> str:
    rows = [
        f"| {_names(p)} | {' '.join((p.help or '').split())}{_default(p)}{_required(p)} |"
        for p in command.params
        if p.param_type_name == "option" and not p.hidden and p.name != "help"
    ]
    return "\n".join(["| option | effect |", "|---|---|", *rows]) + "\n" if rows else ""


def _names(option: Any) -> str:
    value = "" if option.is_flag else " " + (option.metavar or "VALUE")
    return ", ".join(f"`{name}{value}`" for name in (*option.opts, *option.secondary_opts))


def _default(option: Any) -> str:
    shown = isinstance(option.default, (str, int, float)) and not option.is_flag
    value = getattr(option.default, "value", option.default)  # of a choice
    return f" Default: `{value}`." if shown else ""


def _required(option: Any) -> str:
    return " Required." if option.required else ""


if __name__ == "__main__":
    PAGE.write_text(page())
