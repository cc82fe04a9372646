"""`opinfo specialize MODEL -o model.so`: a strategy for each function with symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Model, Problem, Shapes, app, loaded, refusing, show, status, telling, working

if TYPE_CHECKING:
    from rich.table import Table

#: Low, high and multiple where they are not said.
UNBOUNDED: tuple[int | None, ...] = (1, None, 1)


@app.command("specialize")
def specialize_model(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write.")],
    strategy: Annotated[
        str, typer.Option(help="Of all functions: generic, aot, jit, library or record.")
    ] = "jit",
    op: Annotated[
        list[str] | None,
        typer.Option("--op", help="Of functions with an operator: relax.matmul=aot."),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", help="A dimension's range, n=1:128 or n=8:512:8 (multiples)."),
    ] = None,
    likely: Annotated[
        list[str] | None, typer.Option("--likely", help="Values that come most: n=1,16.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="TVM's target; else this CPU.")] = None,
    tuned: Annotated[
        Path | None, typer.Option(help="With aot: a database of `opinfo tune`.")
    ] = None,
    shape: Shapes = None,
) -> None:
    """Compile MODEL for the shapes that will come; how each function is compiled is the table.

    `opinfo.jit.Session` serves the library. Exit status: 0, or 2 with a one-line error if MODEL or
    an option cannot be read, or the library cannot be built.
    """
    with working() as console, telling(console), refusing(model):
        from ..jit import Config, compile_shapes

        dims = _dims(dim or [], likely or [])
        given = Config(strategy, by_op=dict(map(_pair, op or [])), dims=dims, tuned=tuned)
        mod = loaded(model, shape or [])
        with status(console, f"compiling {model}"):
            done = compile_shapes(mod, given, target)
        done.export(output)
    show(
        [strategies(t.row for t in done.functions)],
        f"written: {output}, {len(done.functions)} functions",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise Problem(f"{text}: expected NAME=VALUE")
    return name, value


def _dims(ranges: list[str], likely: list[str]) -> dict[str, Any]:
    """Declared dimensions by name."""
    from ..jit import Dim

    bounds = {name: _numbers(value, ":") for name, value in map(_pair, ranges)}
    values = {name: _numbers(value, ",") for name, value in map(_pair, likely)}
    found = {}
    for name in {**bounds, **values}:
        given = bounds.get(name, ())
        if len(given) > len(UNBOUNDED):
            raise Problem(f"--dim {name}: expected LOW:HIGH or LOW:HIGH:MULTIPLE")
        whole: tuple[int | None, ...] = given + UNBOUNDED[len(given) :]
        low, high, multiple = whole
        found[name] = Dim(low or 1, high, multiple or 1, values.get(name, ()))
    return found


def _numbers(text: str, by: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(by))
    except ValueError:
        raise Problem(f"{text}: expected integers with {by!r} between them") from None


def strategies(rows: Iterable[tuple[str, ...]]) -> Table:
    """How functions are compiled, by what `opinfo.jit.Told` calls its row."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("function", "strategy", "schedule", "why"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
