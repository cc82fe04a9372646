"""`opinfo compile MODEL -o model.so`: the whole way to a library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from .common import (
    Backends,
    Force,
    Model,
    Problem,
    Shapes,
    Wants,
    app,
    bar,
    forced,
    loaded,
    refusing,
    status,
    telling,
    working,
)

if TYPE_CHECKING:
    from ..byoc.compile import Compiled
    from ..compiling import Verified
    from ..tuning import Tuning


@app.command("compile")
def compile_model(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")],
    backend: Backends = "onednn,tvm",
    want: Wants = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with the unmodified module, and time both.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why each operator stayed with TVM.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page of what went where, and why.")
    ] = None,
    target: Annotated[str, typer.Option(help="TVM's target for what stays with it.")] = "llvm",
    force: Force = None,
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
    shape: Shapes = None,
) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    Exit status: 0; 1 if --verify finds a difference; 2 with a one-line error if MODEL or an option
    cannot be read, or the library cannot be built.
    """
    with working() as console:
        tuning = None
        if tune:
            from ..tuning import Tuning

            tuning = Tuning(database, tracker, servers, threads, timeout, extent or [])
        how = Dispatching(backend.split(","), want or [], forced(force), target, save_plan, plan,
                          tuning)  # fmt: skip
        lines, verified = _compile(model, output, shape or [], verify, report, how, console)
    for line in lines if explain else lines[:1]:
        typer.echo(line)
    if verified is not None:
        typer.echo(f"{verified.table()}\n{verified}")
        if not verified.same:
            raise typer.Exit(1)


@dataclass(frozen=True)
class Dispatching:
    """Which backends get what: options of `opinfo compile`."""

    backends: Sequence[str]
    wants: Sequence[str]
    force: dict[str, str]
    target: str
    save_plan: Path | None
    plan: Path | None
    tuning: Tuning | None

    def compiled(self, mod: Any, progress: Callable[[int, int, str], None]) -> Compiled:
        from ..byoc import DispatchPlan
        from ..byoc.compile import compile_module
        from ..planning import parse_wants

        desired = parse_wants(self.wants) if self.wants else None
        saved = None if self.plan is None else DispatchPlan.load(self.plan)
        tuning = self.tuning
        measure = None if tuning is None else tuning.measure(self.target, progress)
        found = compile_module(mod, self.backends, desired, target=self.target, force=self.force,
                               saved=saved, measure=measure)  # fmt: skip
        if self.save_plan is not None:
            found.dispatched.plan.save(self.save_plan)
        return found


def _compile(
    model: Path, output: Path, shapes: list[str], verify: bool, page: Path | None,
    how: Dispatching, console: Console,
) -> tuple[list[str], Verified | None]:  # fmt: skip
    """The summary and why each operator stayed; what was compared."""
    from ..compiling import explained
    from ..compiling import verified as compared

    with telling(console), refusing(model):
        mod = loaded(model, shapes)
        waiting = nullcontext() if how.tuning else status(console, f"compiling {model}")
        with waiting:
            found = _compiled(mod, how, console)
        found.export(output)
    verified = None
    if verify:
        with status(console, f"comparing with {model}"):
            verified = compared(mod, found)
    if page is not None:
        from ..picture.compiled import compiled_page

        try:
            page.write_text(compiled_page(model.name, found, verified), encoding="utf-8")
        except OSError as error:
            raise Problem(f"--report {page}: {error.strerror}") from error
    return [found.dispatched.summary(), *explained(found)], verified


def _compiled(mod: Any, how: Dispatching, console: Console) -> Compiled:
    with bar(console) as shown_bar:
        task = shown_bar.add_task("measuring", total=None, visible=how.tuning is not None)

        def shown(done: int, total: int, name: str) -> None:
            shown_bar.update(task, completed=done, total=total, description=name or "measuring")

        return how.compiled(mod, shown)
