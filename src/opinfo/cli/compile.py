"""`opinfo compile MODEL -o model.so`: the whole way to a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ..analysis.support.progress import stage
from .common import (
    Backends,
    Force,
    Model,
    Problem,
    Shapes,
    Wants,
    app,
    emit,
    forced,
    loaded,
    positive,
    refusing,
    telling,
    working,
)
from .output import Output, appended, distinct, optional
from .output import output as checked
from .showing import counting

if TYPE_CHECKING:
    from ..byoc.compile import CompiledModule
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
        int | None, typer.Option(min=1, max=1024, help="With --tune: how many local servers.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, max=1024, help="With --tune: of each local server.")
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(callback=positive, help="With --tune: seconds that a candidate may run."),
    ] = 60.0,
    extent: Annotated[
        list[str] | None,
        typer.Option(help="With --tune: likely values of a symbolic extent, like n=1,16."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="An error where a backend's code fails.")
    ] = False,
    shape: Shapes = None,
) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    The last line says which regions failed, and who runs them instead. Exit status: 0; 1 if
    --verify finds a difference; 2 with a one-line error if MODEL or an option cannot be read, the
    library cannot be built, or with --strict a region failed or a backend is not available.
    """
    _check(tune, {"--database": database, "--tracker": tracker, "--servers": servers,
                  "--extent": extent}, plan, {"--tune": tune, "--force": force})  # fmt: skip
    library, page = (checked("--output", output, model, plan),
                     optional("--report", report, model, plan))  # fmt: skip
    kept = optional("--save-plan", save_plan, model, plan)
    distinct(library, page, kept, appended("--database", database, model, plan))
    with working() as console:
        tuning = None
        if tune:
            from ..tuning import Tuning

            tuning = Tuning(database, tracker, servers, threads, timeout, extent or [])
        how = Dispatching(backend.split(","), want or [], forced(force), target, kept, plan,
                          tuning, strict)  # fmt: skip
        lines, verified, failures = _compile(
            model, library, shape or [], verify, page, how, console
        )
    for line in lines if explain else lines[:1]:
        emit(line)
    if verified is not None:
        emit(f"{verified.table()}\n{verified}")
    if failures:
        emit(failures)
    if verified is not None and not verified.same:
        raise typer.Exit(1)


def _check(
    tune: bool, tuning: Mapping[str, object], plan: Path | None, choosing: Mapping[str, object]
) -> None:
    """Raises `Problem` for options that would do nothing beside the others."""
    for name, value in tuning.items():
        if value is not None and not tune:
            raise Problem(f"{name}: expected with --tune only")
    for name, value in choosing.items():
        if value and plan is not None:
            raise Problem(f"{name}: expected without --plan, which says what each backend has")


@dataclass(frozen=True)
class Dispatching:
    """Which backends get what: options of `opinfo compile`."""

    backends: Sequence[str]
    wants: Sequence[str]
    force: dict[str, str]
    target: str
    save_plan: Output | None
    plan: Path | None
    tuning: Tuning | None
    strict: bool = False

    def compiled(self, mod: Any) -> CompiledModule:
        from ..byoc import DispatchPlan
        from ..byoc.compile import compile_module
        from ..planning import parse_wants

        desired = parse_wants(self.wants) if self.wants else None
        saved = None if self.plan is None else DispatchPlan.load(self.plan)
        tuning = self.tuning
        measure = None if tuning is None else tuning.measure(self.target, counting("measuring"))
        found = compile_module(mod, self.backends, desired, target=self.target, force=self.force,
                               saved=saved, measure=measure)  # fmt: skip
        done = found.dispatched
        if self.strict and done.failed:
            raise Problem(f"--strict: {done.failures() or done.failed[0]}")
        if self.save_plan is not None:
            self.save_plan.fill(done.plan.save)
        return found


def _compile(
    model: Path, output: Output, shapes: list[str], verify: bool, page: Output | None,
    how: Dispatching, console: Console,
) -> tuple[list[str], Verified | None, str]:  # fmt: skip
    """The summary and why each operator stayed; what was compared; which regions failed."""
    from ..compiling import explained
    from ..compiling import verified as compared

    verified = None
    with telling(console), refusing(model):
        mod = loaded(model, shapes)
        found = how.compiled(mod)
        output.fill(found.export)
        if verify:
            stage(f"comparing with {model}")
            verified = compared(mod, found)
    if page is not None:
        from ..picture.compiled import compiled_page

        page.write(compiled_page(model.name, found, verified))
    done = found.dispatched
    return [done.summary(), *explained(found)], verified, done.failures()
