"""The command line: `opinfo inspect MODEL`, `opinfo plan MODEL`, `opinfo compile MODEL`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from .byoc.compile import Compiled
    from .planning import ModelPlan
    from .tuning import Tuning

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


class Mode(str, Enum):
    """What may be in another layout: see `opinfo.layout.plan_layout`."""

    graph = "graph"
    tir = "tir"


@app.command()
def plan(
    model: Annotated[Path, typer.Argument(help=".onnx, .pt2, Relax .json or TVMScript .py")],
    want: Annotated[
        list[str] | None,
        typer.Option(help="Layouts of an operator: conv2d=NHWC, conv2d=NCHW8c,OIHW8i8o."),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="graph: operators stay Relax operators; tir: everything may flow.")
    ] = Mode.tir,
    explain: Annotated[
        bool, typer.Option("--explain", help="Every value and operator, with its reason.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the graphs before and after.")
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input, like x:1,3,224,224 or x:n,3,8,8.")
    ] = None,
) -> None:
    """Plan the layouts of MODEL: which values change theirs, what is converted, and why.

    Exit status: 0, or 2 with a one-line error if MODEL or an option cannot be read.
    """
    with quiet() as stderr:
        console = Console(file=stderr)
        try:
            found = _plan(model, shape or [], want or [], mode, console)
        except Problem as error:
            console.print(f"opinfo: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(UNREADABLE) from None
        if html is not None:
            html.write_text(found.html(model.name), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1))
        return
    out = Console(width=None if sys.stdout.isatty() else 160)
    for table in found.tables(explain):
        out.print(table, "")
    out.print(found.summary(), markup=False, highlight=False, soft_wrap=True)


@app.command("compile")
def compile_model(
    model: Annotated[Path, typer.Argument(help=".onnx, .pt2, Relax .json or TVMScript .py")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")],
    backend: Annotated[str, typer.Option(help="Backends, by comma: onednn,tvm.")] = "onednn,tvm",
    want: Annotated[
        list[str] | None, typer.Option(help="Layouts of an operator; else what backends want.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with the unmodified module.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why each operator stayed with TVM.")
    ] = False,
    target: Annotated[str, typer.Option(help="TVM's target for what stays with it.")] = "llvm",
    force: Annotated[
        list[str] | None,
        typer.Option(help="An operator's backend, or backend.pattern: conv2d=onednn, softmax=tvm."),
    ] = None,
    save_plan: Annotated[
        Path | None, typer.Option("--save-plan", help="Write which backend has what, as JSON.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Do again what --save-plan wrote.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Time what backends generate, and choose by that.")
    ] = False,
    database: Annotated[
        Path | None, typer.Option(help="With --tune: a file that keeps the times for later runs.")
    ] = None,
    tracker: Annotated[
        str | None, typer.Option(help="With --tune: an RPC tracker, HOST:PORT/KEY; else local.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(min=1, help="With --tune: how many local servers.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="With --tune: of each local server.")] = 1,
    timeout: Annotated[
        float, typer.Option(help="With --tune: seconds that a candidate may run.")
    ] = 60.0,
    extent: Annotated[
        list[str] | None,
        typer.Option(help="With --tune: likely values of a symbolic extent, like n=1,16."),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input, like x:1,3,224,224 or x:n,3,8,8.")
    ] = None,
) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    Exit status: 0; 1 if --verify finds a difference; 2 with a one-line error if MODEL or an option
    cannot be read, or the library cannot be built.
    """
    with quiet() as stderr:
        console = Console(file=stderr)
        try:
            tuning = None
            if tune:
                from .tuning import Tuning

                tuning = Tuning(database, tracker, servers, threads, timeout, extent or [])
            how = Dispatching(backend.split(","), want or [], force or [], target, save_plan, plan,
                              tuning)  # fmt: skip
            told, same = _compile(model, output, shape or [], verify, how, console)
        except Problem as error:
            console.print(f"opinfo: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(UNREADABLE) from None
    for line in told if explain else told[:1] + told[-1:] * verify:
        typer.echo(line)
    if not same:
        raise typer.Exit(1)


class Problem(Exception):
    """What the user can mend; the message is one line."""


def _inspect(
    model: Path, shapes: list[str], func: str | None, explain: bool, fused: bool, console: Console
) -> Report | ChainReport:
    mod = _lowered(model, shapes, console)
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


def _lowered(model: Path, shapes: list[str], console: Console) -> Any:
    """The model's module after legalisation."""
    try:
        with _status(console, f"reading {model}"):
            mod = frontend.load(model, dict(map(frontend.parse_shape, shapes)))
    except frontend.FrontendError as error:
        raise Problem(str(error)) from error
    try:
        return legalize(mod)
    except Exception as error:  # TVM's legalisation raises what it likes
        raise Problem(f"{model}: TVM cannot legalise it: {one_line(error)}") from error


def _plan(
    model: Path, shapes: list[str], wants: list[str], mode: Mode, console: Console
) -> ModelPlan:
    from .planning import parse_wants, plan_model

    try:
        desired = parse_wants(wants)
    except ValueError as error:
        raise Problem(str(error)) from error
    mod = _lowered(model, shapes, console)
    try:
        with _status(console, f"planning {model}"):
            return plan_model(mod, desired, mode.value)
    except (TypeError, ValueError) as error:  # of the layouts that are wanted
        raise Problem(one_line(error)) from error


@dataclass(frozen=True)
class Dispatching:
    """Which backends get what: options of `opinfo compile`."""

    backends: Sequence[str]
    wants: Sequence[str]
    force: Sequence[str]
    target: str
    save_plan: Path | None
    plan: Path | None
    tuning: Tuning | None

    def compiled(self, mod: Any, progress: Callable[[int, int, str], None]) -> Compiled:
        from .byoc import DispatchPlan
        from .byoc.compile import compile_module
        from .planning import parse_wants

        force = dict(_pair(f) for f in self.force)
        desired = parse_wants(self.wants) if self.wants else None
        saved = None if self.plan is None else DispatchPlan.load(self.plan)
        tuning = self.tuning
        measure = None if tuning is None else tuning.measure(self.target, progress)
        found = compile_module(mod, self.backends, desired, target=self.target, force=force,
                               saved=saved, measure=measure)  # fmt: skip
        if self.save_plan is not None:
            found.dispatched.plan.save(self.save_plan)
        return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, place = text.partition("=")
    if not (name and equals and place):
        raise Problem(f"--force {text}: expected OPERATOR=BACKEND")
    return name, place


def _compile(
    model: Path, output: Path, shapes: list[str], verify: bool, how: Dispatching, console: Console
) -> tuple[list[str], bool]:
    """The summary, why each operator stayed, whether the outputs are the same."""
    import warnings

    from .compiling import TOLERANCE, difference, explained

    try:
        mod = frontend.load(model, dict(map(frontend.parse_shape, shapes)))
        waiting = nullcontext() if how.tuning else _status(console, f"compiling {model}")
        with waiting, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", UserWarning)
            found = _compiled(mod, how, console)
        found.export(output)
    except Problem:
        raise
    except (frontend.FrontendError, TypeError, ValueError, OSError) as error:
        raise Problem(one_line(error)) from error
    except Exception as error:  # TVM and its code generation raise what they like
        raise Problem(f"{model}: {one_line(error)}") from error
    for w in told:
        if w.category is UserWarning:
            console.print(f"opinfo: {w.message}", markup=False, highlight=False, soft_wrap=True)
    lines = [found.dispatched.summary(), *explained(found)]
    if not verify:
        return lines, True
    apart = difference(mod, found)
    return [*lines, f"outputs differ by {apart:.1e} of their largest value"], apart <= TOLERANCE


def _compiled(mod: Any, how: Dispatching, console: Console) -> Compiled:
    with _bar(console) as bar:
        task = bar.add_task("measuring", total=None, visible=how.tuning is not None)

        def shown(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=name or "measuring")

        return how.compiled(mod, shown)


def _status(console: Console, text: str) -> AbstractContextManager[object]:
    return console.status(text) if console.is_terminal else nullcontext()


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def main() -> None:
    """Entry point of the `opinfo` script."""
    app()
