"""`opinfo dispatch MODEL`: assign operators to backends, without building."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options.shared_options import (
    Backends,
    Calibrated,
    Force,
    Json,
    Model,
    Shapes,
    Wants,
    backend_names,
    calibrated,
    forced,
    loaded,
)
from ..run.console_messages import refusing, reporting_warnings, working
from ..run.exit_status import emit
from ..run.printed_tables import show


def dispatch_model(
    model: Model,
    backend: Backends = None,
    want: Wants = None,
    force: Force = None,
    calibration: Calibrated = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why operators stay with TVM, and what to change.")
    ] = False,
    as_json: Json = False,
    shape: Shapes = None,
) -> None:
    """Choose layouts and backends for MODEL, without building anything.

    Exit status: 0, or 2 with a one-line error if MODEL cannot be read or an option is invalid.
    """
    with working() as console, reporting_warnings(console), refusing(model):
        from ...front.backend_choice import dispatch
        from ...report.regions import tables, to_json
        from ..options.want_options import parse_wants

        where, desired = forced(force), parse_wants(want) if want else None
        mod = loaded(model, shape)
        named = None if backend is None else backend_names(backend)
        dispatched = dispatch(mod, named, wants=desired, force=where,
                              calibration=calibrated(calibration))  # fmt: skip
        values = to_json(dispatched) if as_json else {}
    if as_json:
        emit(json.dumps(values, indent=1))
    else:
        show(tables(dispatched) if explain else [], dispatched.summary())
        if dispatched.lost:
            emit(dispatched.failures())
