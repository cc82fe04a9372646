"""`opinfo compile MODEL -o model.so`: compile a model to a library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options.common import (
    BACKENDS,
    Calibrated,
    Force,
    Model,
    Shapes,
    UserError,
    Wants,
    backend_names,
    calibrated,
    emit,
    forced,
    loaded,
    positive,
    refusing,
    reporting_warnings,
    show,
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
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The library to write.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="TVM's target; default: this CPU.", autocompletion=targets
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with the unmodified model, and time both.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why each operator stays with TVM.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Write an HTML page with regions and reasons."
        ),
    ] = None,
    shape: Shapes = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Comma-separated backends, which take what they can; default: all installed ones "
            "where they are expected to be faster, and none with --shapes.",
            autocompletion=backends,
            rich_help_panel=BACKENDS,
        ),
    ] = None,
    want: Wants = None,
    force: Force = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail if a region of a backend fails.", rich_help_panel=BACKENDS
        ),
    ] = False,
    save_plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the dispatch plan as JSON.", rich_help_panel=BACKENDS
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Replay the plan of --save-plan.", rich_help_panel=BACKENDS
        ),
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            metavar="STRATEGY",
            help="Strategy for symbolic shapes: generic, aot, jit, library or record.",
            autocompletion=strategies,
            rich_help_panel=SHAPES,
        ),
    ] = None,
    op: Annotated[
        list[str] | None,
        typer.Option(
            "--op",
            metavar="OPERATOR=STRATEGY",
            help="Strategy for functions that contain an operator: relax.matmul=aot.",
            autocompletion=operators,
            rich_help_panel=SHAPES,
        ),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIM=RANGE",
            help="Range of a dimension: n=1:128, n=8:512:8 (multiples of 8), n=17: (unbounded).",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    likely: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIM=VALUES",
            help="Most frequent values of a dimension: n=1,16.",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="DIM=RANGES",
            help="With aot: one kernel for each of these ranges: n=1:4,17:128,8:512:8.",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    largest: Annotated[
        bool,
        typer.Option(
            "--max",
            help="With aot: one kernel for the upper end of each range; pad smaller values.",
            rich_help_panel=SHAPES,
        ),
    ] = False,
    pad: Annotated[
        bool,
        typer.Option(
            "--pad",
            help="With aot: pad smaller values so that kernels of likely values serve them too.",
            rich_help_panel=SHAPES,
        ),
    ] = False,
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="With aot: a tuning database of `opinfo tune`.",
            rich_help_panel=SHAPES,
        ),
    ] = None,
    calibration: Calibrated = None,
    race: Annotated[
        bool,
        typer.Option(
            help="Without --backend, also build for ONNX Runtime and OpenVINO alone, and keep "
            "what is fastest here.",
            rich_help_panel=BACKENDS,
        ),
    ] = True,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose backends by measured times.",
            rich_help_panel=TUNING,
        ),
    ] = False,
    database: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --tune: a file that stores measured times.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    tracker: Annotated[
        str | None,
        typer.Option(
            metavar="TRACKER",
            help="With --tune: an RPC tracker, HOST:PORT/KEY; default: local servers.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1024,
            help="With --tune: number of local servers.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1024,
            help="With --tune: threads of each local server.",
            rich_help_panel=TUNING,
        ),
    ] = 1,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            callback=positive,
            help="With --tune: time limit of a candidate in seconds.",
            rich_help_panel=TUNING,
        ),
    ] = 60.0,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=positive,
            help="With --tune: seconds that measuring may take; default: 180 on a GPU, else all.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    extent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIM=VALUES",
            help="With --tune: likely values of a dimension: n=1,16.",
            rich_help_panel=TUNING,
        ),
    ] = None,
) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    With --shapes, `opinfo.Session` serves the library, and a table shows how each function is
    compiled. The last line names failed regions and the backends that replace them.

    Exit status: 0; 1 if --verify finds a difference; 2 with a one-line error if MODEL cannot be
    read, an option is invalid, the library cannot be built, or, with --strict, a region failed or
    a backend is not available.
    """
    shape_options = ShapeOptions(shapes, op, dim, likely, ranges, largest, pad, tuned)
    shape_options.check()
    _check(tune, {"--database": database, "--tracker": tracker, "--servers": servers,
                  "--seconds": seconds, "--extent": extent},
           plan, {"--tune": tune, "--force": force})  # fmt: skip
    if shapes is not None and backend is None and shapes != "library" and not op:
        _check_alone({"--want": want, "--force": force, "--strict": strict, "--plan": plan,
                      "--save-plan": save_plan, "--tune": tune, "--report": report})  # fmt: skip
    library, page = (checked("--output", output, model, plan),
                     optional("--report", report, model, plan))  # fmt: skip
    plan_file = optional("--save-plan", save_plan, model, plan)
    distinct(library, page, plan_file, appended("--database", database, model, plan))
    with working() as console, reporting_warnings(console), refusing(model):
        measuring = None
        if tune:
            from ..options.measure_options import MeasureOptions

            measuring = MeasureOptions(database, tracker, servers, threads, timeout, extent or [],
                                       seconds)  # fmt: skip
        choice = CompileOptions(backend, want or [], forced(force), target, plan, measuring,
                                shape_options, calibration, race)  # fmt: skip
        mod = loaded(model, shape)
        compiled = choice.compiled(mod)
        _write(compiled, library, plan_file, strict)
        verified = compiled.verify(mod) if verify else None
        if page is not None:
            _write_page(page, model.name, compiled, verified)
    _print(compiled, explain, verified, output)
    if verified is not None and not verified.same:
        raise typer.Exit(1)


def _check(
    tune: bool, tuning: Mapping[str, object], plan: Path | None, choosing: Mapping[str, object]
) -> None:
    """Raise `UserError` for options that contradict or need others."""
    for name, value in tuning.items():
        if value is not None and not tune:
            raise UserError(f"{name} requires --tune")
    for name, value in choosing.items():
        if value and plan is not None:
            raise UserError(f"{name} cannot be combined with --plan, which fixes the backends")


def _check_alone(options: Mapping[str, object]) -> None:
    """Raise `UserError` for backend options without backends."""
    for name, value in options.items():
        if value:
            raise UserError(f"{name}: with --shapes, this requires --backend")


@dataclass(frozen=True)
class CompileOptions:
    """The options of `opinfo compile` that determine the result."""

    backends: str | None
    wants: list[str]
    force: dict[str, str]
    target: str | None
    plan: Path | None
    measuring: MeasureOptions | None
    shapes: ShapeOptions
    calibration: Path | None = None
    race: bool = True

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
            target = read_target(self.target) if self.target else native_target()
            measure = self.measuring.measure(str(target), counting("measuring"))
        chosen = None if self.backends is None else backend_names(self.backends)
        return compile(mod, chosen, target=self.target, shapes=self.shapes.config(), wants=wants,
                       force=self.force or None, measure=measure, plan=plan,
                       calibration=calibrated(self.calibration), race=self.race)  # fmt: skip


def _write(compiled: Compiled, library: Output, plan_file: Output | None, strict: bool) -> None:
    """Write the library and the plan."""
    dispatched = compiled.dispatched
    if strict and dispatched is not None and dispatched.failed:
        raise UserError(f"--strict: {dispatched.failures() or dispatched.failed[0]}")
    if plan_file is not None and dispatched is not None:
        plan_file.fill(dispatched.plan.save)
    library.fill(compiled.export)


def _write_page(page: Output, name: str, compiled: Compiled, verified: Verified | None) -> None:
    from ...analysis.support.progress import stage
    from ...picture.compiled import compiled_page

    if compiled.dispatched is None:
        raise UserError(f"{page}: the page shows backends, but none is used: add --backend")
    stage("writing the page")
    page.write(compiled_page(name, compiled.dispatched, verified))


def _print(compiled: Compiled, explain: bool, verified: Verified | None, output: Path) -> None:
    from ...analysis.support.wording import plural
    from ...front.compiled_model import describe
    from ...report.libraries import strategies as table
    from ...verify.verification import explained

    dispatched = compiled.dispatched
    emit(f"compiled for {describe(compiled.target)}")
    if dispatched is not None:
        emit(dispatched.summary())
        for line in filter(None, (str(compiled.costs or ""), compiled.kept)):
            emit(line)
        for line in explained(dispatched) if explain else ():
            emit(line)
    if compiled.functions:
        written = f"written: {output}, {plural(len(compiled.functions), 'function')}"
        show([table(f.row for f in compiled.functions)], written)
    else:
        emit(f"written: {output}")
    if verified is not None:
        emit(str(verified))
    if dispatched is not None and dispatched.failures():
        emit(dispatched.failures())
