"""All commands, and the options that all of them have."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from .common import Problem, app
from .inspect import inspect_model
from .plan import plan_model

from .dispatch import dispatch_model  # isort: skip
from .compile import compile_model  # isort: skip
from .specialize import specialize_model  # isort: skip
from .tune import tune_record  # isort: skip
from .cache import cache  # isort: skip

__all__ = ["app", "cache", "compile_model", "dispatch_model", "inspect_model", "plan_model",
           "specialize_model", "tune_record"]  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress; anywhere in the command.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show an error in full; anywhere in the command.")
    ] = False,
) -> None:
    """Recover operators, attributes and layouts from TIR, with proof."""
    if show_version:
        typer.echo(f"opinfo {version('opinfo')}, apache-tvm {version('apache-tvm')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise Problem("expected a command; see `opinfo --help`")
