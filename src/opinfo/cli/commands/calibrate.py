"""`opinfo calibrate`: measure what kinds of work cost on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...analysis.support.wording import plural
from ..options.completion import targets
from ..options.output_files import optional
from ..run.console_messages import refusing, reporting_warnings, working
from ..run.exit_status import emit
from ..run.progress_bar import counting


def calibrate_machine(
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write; default: in the cache, for `opinfo compile`.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, max=1024, help="Threads of each call.")
    ] = 1,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="cuda calibrates the GPU of this machine; default: its CPU.",
            autocompletion=targets,
        ),
    ] = None,
) -> None:
    """Measure what kinds of work cost on this machine, with each installed backend and with TVM.

    `opinfo compile` and `opinfo dispatch` then choose by these costs. It takes a few minutes, on a
    machine that is otherwise idle, and is needed again when a library is updated. On a GPU it is
    the time of a launch, the bandwidth of its memory, and its multiplications by dtype; measuring
    ends after two minutes.

    Exit status: 0, or 2 with a one-line error if nothing can be measured or the file cannot be
    written.
    """
    file = optional("--output", output)
    with working() as console, reporting_warnings(console), refusing(Path("calibrate")):
        from ...byoc.building.read_target import compile_target
        from ...byoc.calibration.calibrations import store
        from ...byoc.calibration.measuring.calibrate import calibrate, measuring
        from ...byoc.codegen.host_target import native_target

        chosen = native_target(threads) if target is None else compile_target(target)
        how = measuring(threads, str(chosen), counting("calibrating"))
        calibration = calibrate(how)
        if file is None:
            path = store(calibration)
        else:
            file.fill(calibration.save)
            path = file.path
    backends = plural(len({s.backend for s in calibration.samples}), "backend")
    emit(f"{plural(len(calibration.samples), 'sample')} of {backends} in {path}")
