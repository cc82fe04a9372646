"""`opinfo specialize MODEL -o model.so`: a strategy for each function with symbolic shapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Model, Problem, Shapes, app, loaded, refusing, show, telling, working
from .dims import declared, named, settings, with_settings
from .output import output as checked

if TYPE_CHECKING:
    from rich.table import Table


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
        typer.Option("--dim", help="A dimension's range: n=1:128, n=8:512:8 (multiples), n=17:."),
    ] = None,
    likely: Annotated[
        list[str] | None, typer.Option("--likely", help="Values that come most: n=1,16.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", help="With aot: ranges with a kernel each, n=1:4,17:128,8:512:8."),
    ] = None,
    largest: Annotated[
        bool, typer.Option("--max", help="With aot: one kernel, padded to each range's end.")
    ] = False,
    pad: Annotated[
        bool, typer.Option("--pad", help="With aot: a likely value serves smaller ones, padded.")
    ] = False,
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
    library = checked("--output", output, model)
    if tuned is not None and not tuned.is_dir():
        raise Problem(f"--tuned {tuned} is no database of tuned kernels: there is no such folder")
    with working() as console, telling(console), refusing(model):
        from ..jit import Config, compile_shapes

        dims = declared(named("--dim", dim), named("--likely", likely))
        ahead = settings(named("--range", ranges), largest, pad)
        wanted = {"": strategy, **named("--op", op)}
        if ahead and "aot" not in wanted.values():
            raise Problem(f"--range, --max and --pad: expected --strategy aot or --op ...=aot, got "
                          f"{', '.join(dict.fromkeys(wanted.values()))}")  # fmt: skip
        taken = {name: with_settings(s, ahead) for name, s in wanted.items()}
        given = Config(taken.pop(""), by_op=taken, dims=dims, tuned=tuned)
        mod = loaded(model, shape or [])
        done = compile_shapes(mod, given, target)
        library.fill(done.export)
    show(
        [strategies(t.row for t in done.functions)],
        f"written: {output}, {len(done.functions)} functions",
    )


def strategies(rows: Iterable[tuple[str, ...]]) -> Table:
    """How functions are compiled, by what `SpecializedFunction` calls its row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("function", "strategy", "schedule", "why"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
