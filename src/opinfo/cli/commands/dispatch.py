"""`opinfo dispatch MODEL`: which backend would get what, and why the rest stays with TVM."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options.common import (
    Backends,
    Force,
    Json,
    Model,
    Shapes,
    Wants,
    emit,
    forced,
    loaded,
    refusing,
    show,
    telling,
    working,
)


def dispatch_model(
    model: Model,
    backend: Backends = "onednn,tvm",
    want: Wants = None,
    force: Force = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Why each operator stayed, and what would mend it.")
    ] = False,
    as_json: Json = False,
    shape: Shapes = None,
) -> None:
    """Choose layouts and backends for MODEL; nothing is built.

    Exit status: 0, or 2 with a one-line error if MODEL or an option cannot be read.
    """
    with working() as console, telling(console), refusing(model):
        from ...byoc import dispatch
        from ...byoc.prepare.prepare import prepare
        from ...front.planning import parse_wants
        from ...report.regions import tables, to_json

        where, desired = forced(force), parse_wants(want) if want else None
        backends = backend.split(",")
        lowered = prepare(loaded(model, shape), backends)
        done = dispatch(lowered, backends, force=where, layouts="best", desired=desired)
        told = to_json(done) if as_json else {}
    if as_json:
        emit(json.dumps(told, indent=1))
    else:
        show(tables(done) if explain else [], done.summary())
        if done.lost:
            typer.echo(done.failures())
