"""`opinfo plan MODEL`: which values change their layout, and why."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...analysis.support.progress import stage
from ...frontend.checks.error import one_line
from ..options.common import Json, Model, Problem, Shapes, emit, show, telling, working
from ..options.output_files import optional
from .inspect import lowered

if TYPE_CHECKING:
    from ...front.planning import ModelPlan


class Mode(str, Enum):
    """What may be in another layout: see `opinfo.layout.plan_layout`."""

    graph = "graph"
    tir = "tir"


def plan_model(
    model: Model,
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
    as_json: Json = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the graphs before and after.")
    ] = None,
    shape: Shapes = None,
) -> None:
    """Plan the layouts of MODEL: which values change theirs, what is converted, and why.

    Exit status: 0, or 2 with a one-line error if MODEL or an option cannot be read.
    """
    page = optional("--html", html, model)
    with working() as console, telling(console):
        found = _plan(model, shape or [], want or [], mode)
        if page is not None:
            page.write(found.html(model.name))
    if as_json:
        emit(json.dumps(found.to_json(), indent=1))
    else:
        show(found.tables(explain), found.summary())


def _plan(model: Path, shapes: list[str], wants: list[str], mode: Mode) -> ModelPlan:
    from ...front.planning import parse_wants
    from ...front.planning import plan_model as planned

    try:
        desired = parse_wants(wants)
    except ValueError as error:
        raise Problem(str(error)) from error
    mod = lowered(model, shapes)
    stage(f"planning {model}")
    try:
        return planned(mod, desired, mode.value)
    except (TypeError, ValueError) as error:  # of the layouts that are wanted
        raise Problem(one_line(error)) from error
