"""`opinfo tune RECORD`: schedules for the shapes that came in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.common import UserError, positive, refusing, show, telling, working
from ..options.output_files import folder
from ..run.progress_bar import counting

if TYPE_CHECKING:
    from rich.table import Table

    from ...jit.tune.record import Recording
    from ...jit.tune.tune import Found


def tune_record(
    record: Annotated[Path, typer.Argument(help="The shapes that a model was called with.")],
    database: Annotated[Path, typer.Option(help="A folder that keeps what is found.")],
    trials: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Candidates of each shape.")
    ] = 64,
    top: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Only the most frequent shapes.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="Stop to search after this time, in seconds; what is found is kept.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="TVM's target that the model is compiled for; else this CPU.")
    ] = None,
    tracker: Annotated[
        str | None, typer.Option(help="An RPC tracker, HOST:PORT/KEY; else this machine.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="That a kernel may use.")] = 1,
    timeout: Annotated[
        float, typer.Option(callback=positive, help="Seconds that a candidate may run.")
    ] = 60.0,
) -> None:
    """Search for schedules of the recorded shapes, the most frequent first.

    What has as many trials in the database is not searched for again, so that it can be interrupted
    and repeated. Exit status: 0, or 2 with a one-line error if RECORD or the database cannot be
    used, or nothing can be measured.
    """
    with working() as console, telling(console), refusing(record):
        from ...byoc.building.read_target import read_target
        from ...byoc.codegen.host import native_target
        from ...front.tuning import tune
        from ..options.measure_options import MeasureOptions

        if not record.exists():
            raise UserError(f"{record}: no such file")
        recording = _recording(record)
        folder("--database", database)
        progress = counting("tuning")
        timed = MeasureOptions(None, tracker, None, threads, timeout, [])
        wanted = read_target(target) if target else native_target()
        measure = timed.measure(str(wanted), progress)
        results = tune(recording, database, trials=trials, top=top, seconds=seconds,
                       measure=measure, progress=progress)  # fmt: skip
    show([_table(results)] if results else [], _summary(results, database))


def _recording(path: Path) -> Recording:
    from ...jit.tune.record import Recording

    return Recording.load(path)


def _table(found: Sequence[Found]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("site", "shape"):
        table.add_column(name)
    for name in ("calls", "trials", "new", "best us", "by structure", "failed"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for f in found:
        shape = ", ".join(f"{k}={v}" for k, v in f.shape.values)
        times = ["" if t is None else f"{t:.1f}" for t in (f.microseconds, f.structure)]
        why = escape(f.failed[0] if f.failed else "")
        table.add_row(escape(f.shape.site), escape(shape), f"{f.calls:,}", str(f.trials),
                      str(f.new), *times, str(len(f.failed)), why)  # fmt: skip
    return table


def _summary(found: Sequence[Found], database: Path) -> str:
    from ...analysis.support.wording import plural
    from ...jit.tune.schedule_database import Searched

    wins = sum(Searched(0, f.microseconds, f.structure).wins for f in found)
    new = sum(f.new for f in found)
    return (f"{plural(len(found), 'shape')}, {wins} of them faster than by structure; "
            f"{plural(new, 'new trial')}, in {database}")  # fmt: skip
