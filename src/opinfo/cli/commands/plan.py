"""`opinfo plan MODEL`: which values change their layout, and why."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..options.common import Json, Model, Shapes, emit, loaded, refusing, show, telling, working
from ..options.completion import wants
from ..options.output_files import optional


class Mode(str, Enum):
    """What may be in another layout: see `opinfo.layout.plan_layout`."""

    graph = "graph"
    tir = "tir"


def plan_model(
    model: Model,
    want: Annotated[
        list[str] | None,
        typer.Option(
            help="Layouts of an operator: conv2d=NHWC, conv2d=NCHW8c,OIHW8i8o.",
            autocompletion=wants,
        ),
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
    with working() as console, telling(console), refusing(model):
        from ...front.planning import plan
        from ..options.want_options import parse_wants

        desired = parse_wants(want or [])
        planned = plan(loaded(model, shape), desired, mode=mode.value)
        if page is not None:
            page.write(planned.html(title=model.name))
    if as_json:
        emit(json.dumps(planned.to_json(), indent=1))
    else:
        show(planned.tables(explain), planned.summary())
