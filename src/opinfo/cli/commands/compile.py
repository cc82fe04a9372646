"""`opinfo compile MODEL -o model.so`: the whole way to a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options.common import (
    BACKENDS,
    Force,
    Model,
    Shapes,
    UserError,
    Wants,
    emit,
    forced,
    loaded,
    positive,
    refusing,
    show,
    telling,
    working,
)
from ..options.completion import backends, operators, strategies, targets
from ..options.output_files import Output, appended, distinct, optional
from ..options.output_files import output as checked
from ..options.shape_options import ShapeOptions

if TYPE_CHECKING:
    from ...front.compiled_model import Compiled
    from ...verify.verification import Verified
    from ..options.measure_options import MeasureOptions

SHAPES, TUNING = "Symbolic shapes", "Measured costs"


def compile_model(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")],
    target: Annotated[
        str | None, typer.Option(help="TVM's target; else this CPU.", autocompletion=targets)
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with the unmodified module, and time both.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why each operator stayed with TVM.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page of what went where, and why.")
    ] = None,
    shape: Shapes = None,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Backends, by comma; by default onednn,tvm, and none with --shapes.",
            autocompletion=backends,
            rich_help_panel=BACKENDS,
        ),
    ] = None,
    want: Wants = None,
    force: Force = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="An error where a backend's code fails.", rich_help_panel=BACKENDS
        ),
    ] = False,
    save_plan: Annotated[
        Path | None,
        typer.Option(help="Write which backend has what, as JSON.", rich_help_panel=BACKENDS),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Do again what --save-plan wrote.", rich_help_panel=BACKENDS)
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            metavar="STRATEGY",
            help="How functions are compiled: generic, aot, jit, library or record.",
            autocompletion=strategies,
            rich_help_panel=SHAPES,
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            "--op",
            help="Functions with an operator: relax.matmul=aot.",
            autocompletion=operators,
            rich_help_panel=SHAPES,
        ),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            help="A dimension's range: n=1:128, n=8:512:8 (multiples), n=17:.",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    likely: Annotated[
        list[str] | None,
        typer.Option(help="Values that come most: n=1,16.", rich_help_panel=SHAPES),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="With aot: ranges with a kernel each, n=1:4,17:128,8:512:8.",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    largest: Annotated[
        bool,
        typer.Option(
            "--max",
            help="With aot: one kernel, padded to each range's end.",
            rich_help_panel=SHAPES,
        ),
    ] = False,
    pad: Annotated[
        bool,
        typer.Option(
            "--pad",
            help="With aot: a likely value serves smaller ones, padded.",
            rich_help_panel=SHAPES,
        ),
    ] = False,
    tuned: Annotated[
        Path | None,
        typer.Option(help="With aot: a database of `opinfo tune`.", rich_help_panel=SHAPES),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Time what backends generate, and choose by that.",
            rich_help_panel=TUNING,
        ),
    ] = False,
    database: Annotated[
        Path | None,
        typer.Option(
            help="With --tune: a file that keeps the times for later runs.", rich_help_panel=TUNING
        ),
    ] = None,
    tracker: Annotated[
        str | None,
        typer.Option(
            help="With --tune: an RPC tracker, HOST:PORT/KEY; else local.", rich_help_panel=TUNING
        ),
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="With --tune: how many local servers.", rich_help_panel=TUNING
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1, max=1024, help="With --tune: of each local server.", rich_help_panel=TUNING
        ),
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            callback=positive,
            help="With --tune: seconds that a candidate may run.",
            rich_help_panel=TUNING,
        ),
    ] = 60.0,
    extent: Annotated[
        list[str] | None,
        typer.Option(
            help="With --tune: likely values of a symbolic extent, like n=1,16.",
            rich_help_panel=TUNING,
        ),
    ] = None,
) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    With --shapes, `opinfo.Session` serves the library, and a table says how each function is
    compiled. The last line names the regions that failed, and who runs them instead.

    Exit status: 0; 1 if --verify finds a difference; 2 with a one-line error if MODEL or an option
    cannot be read, the library cannot be built, or with --strict a region failed or a backend is
    not available.
    """
    given = ShapeOptions(shapes, op, dim, likely, ranges, largest, pad, tuned)
    given.check()
    _check(tune, {"--database": database, "--tracker": tracker, "--servers": servers,
                  "--extent": extent}, plan, {"--tune": tune, "--force": force})  # fmt: skip
    if shapes is not None and backend is None and shapes != "library" and not op:
        _check_alone({"--want": want, "--force": force, "--strict": strict, "--plan": plan,
                      "--save-plan": save_plan, "--tune": tune, "--report": report})  # fmt: skip
    library, page = (checked("--output", output, model, plan),
                     optional("--report", report, model, plan))  # fmt: skip
    kept = optional("--save-plan", save_plan, model, plan)
    distinct(library, page, kept, appended("--database", database, model, plan))
    with working() as console, telling(console), refusing(model):
        measuring = None
        if tune:
            from ..options.measure_options import MeasureOptions

            measuring = MeasureOptions(database, tracker, servers, threads, timeout, extent or [])
        named = "onednn,tvm" if backend is None and shapes is None else backend
        choice = CompileOptions(named, want or [], forced(force), target, plan, measuring, given)
        mod = loaded(model, shape)
        compiled = choice.compiled(mod)
        _write(compiled, library, kept, strict)
        verified = compiled.verify(mod) if verify else None
        if page is not None:
            _write_page(page, model.name, compiled, verified)
    _print(compiled, explain, verified, output)
    if verified is not None and not verified.same:
        raise typer.Exit(1)


def _check(
    tune: bool, tuning: Mapping[str, object], plan: Path | None, choosing: Mapping[str, object]
) -> None:
    """Raises `UserError` for options that would do nothing beside the others."""
    for name, value in tuning.items():
        if value is not None and not tune:
            raise UserError(f"{name}: expected with --tune only")
    for name, value in choosing.items():
        if value and plan is not None:
            raise UserError(f"{name}: expected without --plan, which says what each backend has")


def _check_alone(options: Mapping[str, object]) -> None:
    """Raises `UserError` for what is about backends where there are none."""
    for name, value in options.items():
        if value:
            raise UserError(f"{name}: with --shapes, expected with --backend only")


@dataclass(frozen=True)
class CompileOptions:
    """What is compiled how: options of `opinfo compile`."""

    backends: str | None
    wants: list[str]
    force: dict[str, str]
    target: str | None
    plan: Path | None
    measuring: MeasureOptions | None
    shapes: ShapeOptions

    def compiled(self, mod: Any) -> Compiled:
        from ...byoc import DispatchPlan
        from ...byoc.building.read_target import read_target
        from ...byoc.codegen.host import native_target
        from ...front.compiling import compile
        from ..options.want_options import parse_wants
        from ..run.progress_bar import counting

        wants = parse_wants(self.wants) if self.wants else None
        plan = None if self.plan is None else DispatchPlan.load(self.plan)
        measure = None
        if self.measuring is not None:
            wanted = read_target(self.target) if self.target else native_target()
            measure = self.measuring.measure(str(wanted), counting("measuring"))
        chosen = None if self.backends is None else self.backends.split(",")
        return compile(mod, chosen, target=self.target, shapes=self.shapes.config(), wants=wants,
                       force=self.force or None, measure=measure, plan=plan)  # fmt: skip


def _write(compiled: Compiled, library: Output, kept: Output | None, strict: bool) -> None:
    """The library, and the plan that is to be kept."""
    done = compiled.dispatched
    if strict and done is not None and done.failed:
        raise UserError(f"--strict: {done.failures() or done.failed[0]}")
    if kept is not None and done is not None:
        kept.fill(done.plan.save)
    library.fill(compiled.export)


def _write_page(page: Output, name: str, compiled: Compiled, verified: Verified | None) -> None:
    from ...analysis.support.progress import stage
    from ...picture.compiled import compiled_page

    if compiled.dispatched is None:
        raise UserError(f"{page}: no backend was asked, there is nothing to write of them")
    stage("writing the page")
    page.write(compiled_page(name, compiled.dispatched, verified))


def _print(compiled: Compiled, explain: bool, verified: Verified | None, output: Path) -> None:
    from ...analysis.support.wording import plural
    from ...front.compiled_model import describe
    from ...report.libraries import strategies as table
    from ...verify.verification import explained

    done = compiled.dispatched
    emit(f"compiled for {describe(compiled.target)}")
    if done is not None:
        emit(done.summary())
        for line in explained(done) if explain else ():
            emit(line)
    if compiled.functions:
        written = f"written: {output}, {plural(len(compiled.functions), 'function')}"
        show([table(f.row for f in compiled.functions)], written)
    if verified is not None:
        emit(str(verified))
    if done is not None and done.failures():
        emit(done.failures())
