"""`opinfo plan MODEL`: plan layouts, with reasons."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.completion import wants
from ..options.output_files import optional
from ..options.shared_options import Json, Model, Shapes, readable
from ..run.console_messages import reporting_warnings, say, working
from ..run.exit_status import UserError, emit
from ..run.printed_tables import show

if TYPE_CHECKING:
    from ...front.planning import ModelPlan


class Mode(str, Enum):
    """Where layouts may change; see `opinfo.layout.plan_layout`."""

    graph = "graph"
    tir = "tir"


def plan_model(
    model: Model,
    want: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATOR=LAYOUTS",
            help="Layouts of an operator: conv2d=NHWC, conv2d=NCHW8c,OIHW8i8o.",
            autocompletion=wants,
        ),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            metavar="MODE",
            help="graph: operators stay Relax operators; tir: any PrimFunc may change.",
        ),
    ] = Mode.tir,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every value and operator with its reason.")
    ] = False,
    as_json: Json = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write an HTML page with the graphs before and after."),
    ] = None,
    shape: Shapes = None,
) -> None:
    """Plan the layouts of MODEL, and print the changed values and conversions with reasons.

    Exit status: 0, or 2 with a one-line error if MODEL cannot be read or an option is invalid.
    """
    page = optional("--html", html, model)
    with working() as console, reporting_warnings(console):
        planned = _plan(model, shape, want or [], mode)
        if page is not None:
            page.write(planned.html(title=model.name))
        if not want and not planned.report.moved():
            say(console, "nothing to change; --want conv2d=NHWC requests layouts of an operator")
    if as_json:
        emit(json.dumps(planned.to_json(), indent=1))
    else:
        show(planned.tables(explain), planned.summary())


def _plan(model: Path, shape: list[str] | None, want: list[str], mode: Mode) -> ModelPlan:
    from ...front.planning import plan
    from ...front.prim_funcs import LegalizeError
    from ...frontend.checks.error import one_line
    from ..options.want_options import parse_wants

    try:
        desired = parse_wants(want)
    except ValueError as error:
        raise UserError(str(error)) from error
    mod = readable(model, shape)
    try:
        return plan(mod, desired, mode=mode.value)
    except LegalizeError as error:
        raise UserError(f"{model}: {error}") from error
    except (TypeError, ValueError) as error:  # invalid --want
        raise UserError(one_line(error)) from error
