"""The command line: `opinfo inspect MODEL`."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from . import frontend
from .chains import ChainReport, inspect_fused
from .frontend.error import one_line
from .inspection import inspect as analyse
from .inspection import legalize
from .quiet import quiet
from .report import Report

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

UNREADABLE = 2


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Recover operators, attributes and layouts from TIR, with proof."""
    if show_version:
        typer.echo(f"opinfo {version('opinfo')}, apache-tvm {version('apache-tvm')}")
        raise typer.Exit


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help=".onnx, .pt2, Relax .json or TVMScript .py")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    func: Annotated[str | None, typer.Option(help="Only the PrimFunc of this name.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Attributes, alternatives, certificates, reasons.")
    ] = False,
    fused: Annotated[
        bool, typer.Option("--fused", help="The operators of each PrimFunc after fusion.")
    ] = False,
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input, like x:1,3,224,224 or x:n,3,8,8.")
    ] = None,
) -> None:
    """Print the operator of every PrimFunc that MODEL is lowered to.

    Exit status: 0, or 2 with a one-line error if MODEL cannot be read.
    """
    with quiet() as stderr:
        console = Console(file=stderr)
        try:
            report = _inspect(model, shape or [], func, explain, fused, console)
        except Problem as error:
            console.print(f"opinfo: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(UNREADABLE) from None
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=1))
    elif explain:
        typer.echo(f"{report.explain()}\n\n{report.summary()}")
    else:
        out = Console(width=None if sys.stdout.isatty() else 160)
        out.print(report.table())
        out.print(f"\n{report.summary()}", markup=False, highlight=False)


class Problem(Exception):
    """What the user can mend; the message is one line."""


def _inspect(
    model: Path, shapes: list[str], func: str | None, explain: bool, fused: bool, console: Console
) -> Report | ChainReport:
    try:
        with _status(console, f"reading {model}"):
            mod = frontend.load(model, dict(map(frontend.parse_shape, shapes)))
    except frontend.FrontendError as error:
        raise Problem(str(error)) from error
    try:
        mod = legalize(mod)
    except Exception as error:  # TVM's legalisation raises what it likes
        raise Problem(f"{model}: TVM cannot legalise it: {one_line(error)}") from error
    with _bar(console) as bar:
        task = bar.add_task("analysing", total=None)

        def shown(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name or "done")

        try:
            if fused:
                return inspect_fused(mod, shown, func=func)
            return analyse(mod, shown, func=func, alternatives=explain)
        except KeyError as error:
            raise Problem(f"{model}: {error.args[0]}") from error


def _status(console: Console, text: str) -> AbstractContextManager[object]:
    return console.status(text) if console.is_terminal else nullcontext()


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def main() -> None:
    """Entry point of the `opinfo` script."""
    app()
