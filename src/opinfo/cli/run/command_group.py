"""The group of all commands, with errors as one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .aliases import renamed
from .exit_status import UserError, status_of, stderr, traceback_wanted

#: Options of all commands, allowed anywhere in the command line.
EVERYWHERE = ("--quiet", "--traceback")
#: Whether to suppress progress.
silent: ContextVar[bool] = ContextVar("silent", default=False)


class Command(TyperCommand):
    """A command; its help shows no type for options without a value, and none is empty."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; an empty path, as of a variable without a value, would be the current folder."""
        if not ctx.resilient_parsing:  # as while a shell completes a word
            _refuse_empty(args, ctx.command_path)
        return list(super().parse_args(ctx, args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line; some versions of typer write ``{MODEL}``."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, for the parser and for the help."""
        return _without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """All commands; every error is one line with its own exit status."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, for the parser and for the help."""
        return _without_types(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; exit with its status, or return it if not stand-alone."""
        words, anywhere = everywhere(sys.argv[1:] if args is None else list(args))
        name = prog_name or "opinfo"
        self._main_shell_completion(extra, name, complete_var)
        if not standalone_mode:
            token = silent.set("--quiet" in anywhere)
            try:
                return self._run(words, name, **extra)
            finally:
                silent.reset(token)
        command_line = [*anywhere, *words]
        sys.exit(
            status_of(lambda: self.main(command_line, name, standalone_mode=False, **extra),
                      traceback_wanted(anywhere))
        )  # fmt: skip

    def _run(self, words: list[str], name: str, **extra: Any) -> int:
        words, warning = renamed(words)
        try:
            with self.make_context(name, words or ["--help"], **extra) as context:
                self.invoke(context)
        except typer.Exit as error:
            return int(error.exit_code)
        except typer.Abort:
            raise KeyboardInterrupt from None
        if warning:  # only after success: an error prints a single line
            stderr().write(f"opinfo: {warning}\n")
        return 0


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters; typer would show the type of a flag, as ``--json <bool>``."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def _refuse_empty(words: Sequence[str], command: str) -> None:
    """Raise `UserError` if a word, or the value of an option, is empty."""
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if word and not (option.startswith("--") and equals and not value):
            continue
        where = option or (before if before.startswith("-") and before != "--" else "")
        what = f"{where}: expected a value" if where else "expected a path"
        raise UserError(f"{what}, got an empty one; see `{command} --help`")


def everywhere(words: list[str]) -> tuple[list[str], list[str]]:
    """Separate the options of `EVERYWHERE` from a command line: (other words, options)."""
    end = words.index("--") if "--" in words else len(words)
    options = [w for w in words[:end] if w in EVERYWHERE]
    return [w for w in words[:end] if w not in EVERYWHERE] + words[end:], options
