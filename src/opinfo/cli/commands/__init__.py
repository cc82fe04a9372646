"""All commands in the order of `opinfo --help`, and the options common to all."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from ..run.command_group import Command, Commands
from ..run.exit_status import UserError
from .backends import list_all_backends, list_all_recognisers
from .cache import cache
from .calibrate import calibrate_machine
from .compile import compile_model
from .dispatch import dispatch_model
from .inspect import inspect_model
from .plan import plan_model
from .tune import tune_record

__all__ = ["app"]

app = typer.Typer(cls=Commands, pretty_exceptions_enable=False, rich_markup_mode="markdown")
app.command("inspect", cls=Command)(inspect_model)
app.command("plan", cls=Command)(plan_model)
app.command("dispatch", cls=Command)(dispatch_model)
app.command("compile", cls=Command)(compile_model)
app.command("tune", cls=Command)(tune_record)
app.command("calibrate", cls=Command)(calibrate_machine)
app.command("backends", cls=Command)(list_all_backends)
app.command("recognisers", cls=Command)(list_all_recognisers)
app.add_typer(cache, name="cache")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress; allowed after any command.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show full tracebacks; allowed after any command.")
    ] = False,
) -> None:
    """Recover operators from TIR with proof; plan layouts, dispatch to backends, compile.

    MODEL is a file: .onnx, .pt2 of torch.export, Relax .json or TVMScript .py. Start with
    `opinfo inspect MODEL`, and then `opinfo compile MODEL -o model.so`.
    """
    if show_version:
        typer.echo(f"opinfo {version('opinfo')}, apache-tvm {version('apache-tvm')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise UserError("expected a command; see `opinfo --help`")
