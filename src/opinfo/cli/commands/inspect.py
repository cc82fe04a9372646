"""`opinfo inspect MODEL`: the operator of every PrimFunc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.shared_options import Json, Shapes, readable
from ..run.console_messages import refusing, reporting_warnings, working
from ..run.exit_status import UserError, emit
from ..run.printed_tables import narrow, show

if TYPE_CHECKING:
    from ...report.chains import ChainReport
    from ...report.operators import Report


def inspect_model(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help=".onnx, .pt2, Relax .json, TVMScript .py, or .so of compile --shapes",
        ),
    ],
    as_json: Json = False,
    func: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only this PrimFunc.")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show attributes, alternatives, certificates and reasons."),
    ] = False,
    fused: Annotated[
        bool, typer.Option("--fused", help="Show the operators of each PrimFunc after fusion.")
    ] = False,
    shape: Shapes = None,
) -> None:
    """Print the operator of every PrimFunc that MODEL is lowered to.

    For a library of `opinfo compile --shapes` (.so), print how each function is compiled.

    Exit status: 0, or 2 with a one-line error if MODEL cannot be read.
    """
    if model.suffix == ".so":
        options = {"--func": func, "--explain": explain, "--fused": fused, "--shape": shape}
        if of_models := [option for option, value in options.items() if value]:
            raise UserError(f"{model}: {of_models[0]} is for models, and this is a library")
        return _inspect_library(model, as_json)
    with working() as console, reporting_warnings(console):
        report = _inspect(model, shape, func, explain, fused)
    if as_json:
        emit(json.dumps(report.to_json(), indent=1))
    elif explain:
        emit(f"{report.explain()}\n\n{report.summary()}")
    else:
        show([report.table(narrow())], report.summary())


def _inspect(
    model: Path, shape: list[str] | None, func: str | None, explain: bool, fused: bool
) -> Report | ChainReport:
    from ...front.inspection import inspect
    from ...front.prim_funcs import LegalizeError, UnknownPrimFunc

    mod = readable(model, shape)
    try:
        return inspect(mod, func=func, alternatives=explain, fused=fused)
    except (UnknownPrimFunc, LegalizeError) as error:
        raise UserError(f"{model}: {error}") from error


def _inspect_library(library: Path, as_json: bool) -> None:
    with working(), refusing(library):
        from ...front.inspection import inspect_library

        if not library.exists():
            raise UserError(f"{library}: no such file")
        report = inspect_library(library)
    if as_json:
        return emit(json.dumps(report.to_json(), indent=1))
    show([report.table()], report.summary())
