"""`opinfo inspect MODEL`: the operator of every PrimFunc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import frontend
from ..analysis.support.progress import stage
from ..chains import ChainReport, inspect_fused
from ..frontend.error import one_line
from ..inspection import NotThere, legalize
from ..inspection import inspect as analyse
from ..report import Report
from .common import (
    Json,
    Model,
    Problem,
    Shapes,
    app,
    emit,
    loaded,
    refusing,
    show,
    telling,
    working,
)
from .showing import counting
from .specialize import strategies


@app.command("inspect")
def inspect_model(
    model: Model,
    as_json: Json = False,
    func: Annotated[str | None, typer.Option(help="Only the PrimFunc of this name.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Attributes, alternatives, certificates, reasons.")
    ] = False,
    fused: Annotated[
        bool, typer.Option("--fused", help="The operators of each PrimFunc after fusion.")
    ] = False,
    shape: Shapes = None,
) -> None:
    """Print the operator of every PrimFunc that MODEL is lowered to.

    Of a library that `opinfo specialize` wrote (.so): how each of its functions is compiled.

    Exit status: 0, or 2 with a one-line error if MODEL cannot be read.
    """
    if model.suffix == ".so":
        return _served(model, as_json)
    with working() as console, telling(console):
        report = _inspect(model, shape or [], func, explain, fused)
    if as_json:
        emit(json.dumps(report.to_json(), indent=1))
    elif explain:
        emit(f"{report.explain()}\n\n{report.summary()}")
    else:
        show([report.table()], report.summary())


def _inspect(
    model: Path, shapes: list[str], func: str | None, explain: bool, fused: bool
) -> Report | ChainReport:
    mod, shown = lowered(model, shapes), counting("analysing")
    try:
        if fused:
            return inspect_fused(mod, shown, func=func)
        return analyse(mod, shown, func=func, alternatives=explain)
    except NotThere as error:
        raise Problem(f"{model}: {error.args[0]}") from error


def lowered(model: Path, shapes: list[str]) -> Any:
    """The model's module after legalisation."""
    try:
        mod = loaded(model, shapes)
    except frontend.FrontendError as error:
        raise Problem(str(error)) from error
    stage(f"legalising {model}")
    try:
        return legalize(mod)
    except Exception as error:  # TVM's legalisation raises what it likes
        raise Problem(f"{model}: TVM cannot legalise it: {one_line(error)}") from error


def _served(library: Path, as_json: bool) -> None:
    """The strategies that a library was compiled by; its code does not run."""
    with working(), refusing(library):
        from ..jit.runtime.library_table import read

        if not library.exists():
            raise Problem(f"{library}: no such file")
        found = read(library)
    if as_json:
        names = ("func", "strategy", "schedule", "why")
        rows = [dict(zip(names, row, strict=True)) for row in found.told]
        return emit(json.dumps({"target": found.target, "rows": rows}, indent=1))
    ranges = "; ".join(f"{name} is {r}" for name, r in found.ranges.items()) or "any shape"
    show([strategies(found.told)],
         f"{len(found.told)} functions, {len(found.sites)} call sites, {ranges}")  # fmt: skip
