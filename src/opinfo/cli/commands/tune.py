"""`opinfo tune RECORD`: search for schedules of recorded shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.option_fields import with_options
from ..options.output_files import folder
from ..options.shared_options import positive
from ..run.console_messages import refusing, reporting_warnings, working
from ..run.exit_status import UserError
from ..run.printed_tables import show
from ..run.progress_bar import counting

if TYPE_CHECKING:
    from rich.table import Table

    from ...jit.tune.tune import TuneResult


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Values as on the command line, in the order of the help."""

    record: Annotated[
        Path,
        typer.Argument(metavar="RECORD", help="A recording of `Session.recording().save(...)`."),
    ]
    database: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder of the tuning database.")
    ]
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Trials of each shape.")
    ] = 64
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Tune only this many shapes, the most frequent ones.",
        ),
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=positive,
            help="Stop the search after this many seconds; results are kept.",
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="TVM's target of the model; default: this CPU."),
    ] = None
    tracker: Annotated[
        str | None,
        typer.Option(
            metavar="TRACKER", help="An RPC tracker, HOST:PORT/KEY; default: this machine."
        ),
    ] = None
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, max=1024, help="Threads of a kernel.")
    ] = 1
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", callback=positive, help="Time limit of a candidate in seconds."
        ),
    ] = 60.0


@with_options
def tune_record(options: TuneOptions) -> None:
    """Search for schedules of recorded shapes, most frequent first.

    Shapes with enough trials in the database are skipped, so an interrupted run can be repeated.

    Exit status: 0, or 2 with a one-line error if RECORD or the database cannot be
    used, or nothing can be measured.
    """
    record = options.record
    with working() as console, reporting_warnings(console), refusing(record):
        if not record.exists():
            raise UserError(f"{record}: no such file")
        results = _tuned(options)
    show([_table(results)] if results else [], _summary(results, options.database))


def _tuned(options: TuneOptions) -> Sequence[TuneResult]:
    from ...byoc.building.read_target import read_target
    from ...byoc.codegen.host_target import native_target
    from ...byoc.measure import Measure
    from ...front.tuning import tune
    from ...jit.tune.record import Recording
    from ..options.measure_options import parse_tracker

    recording = Recording.load(options.record)
    folder("--database", options.database)
    progress = counting("tuning")
    target = read_target(options.target) if options.target else native_target()
    measure = Measure(None, parse_tracker(options.tracker), None, options.threads,
                      options.timeout, target=str(target), progress=progress)  # fmt: skip
    return tune(recording, options.database, trials=options.trials, top=options.top,
                seconds=options.seconds, measure=measure, progress=progress)  # fmt: skip


def _table(results: Sequence[TuneResult]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("site", "shape"):
        table.add_column(name)
    for name in ("calls", "trials", "new", "best us", "by structure", "failed"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for result in results:
        shape = ", ".join(f"{k}={v}" for k, v in result.shape.values)
        times = ["" if t is None else f"{t:.1f}" for t in (result.microseconds, result.structure)]
        why = escape(result.failed[0] if result.failed else "")
        table.add_row(
            escape(result.shape.site),
            escape(shape),
            f"{result.calls:,}",
            str(result.trials),
            str(result.new),
            *times,
            str(len(result.failed)),
            why,
        )
    return table


def _summary(results: Sequence[TuneResult], database: Path) -> str:
    from ...analysis.support.wording import plural
    from ...jit.tune.schedule_database import Searched

    wins = sum(Searched(0, result.microseconds, result.structure).wins for result in results)
    new = sum(result.new for result in results)
    return (f"{plural(len(results), 'shape')}, {wins} of them faster than the rule's schedule; "
            f"{plural(new, 'new trial')}, in {database}")  # fmt: skip
