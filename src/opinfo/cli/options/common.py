"""What the commands share: the app, one-line errors, what is shown while they work."""

from __future__ import annotations

import io
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...report.printable import printable
from ..run.exit_status import UserError, emit, one, os_error, stderr, write
from ..run.progress_bar import showing
from .completion import backends, forces, wants

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["UserError", "emit", "forced", "loaded", "once", "positive", "readable", "refusing",
           "say", "show", "telling", "working"]  # fmt: skip

#: How wide tables are where standard output is no terminal.
WIDE = 160
#: A terminal of fewer columns has the most important columns of a table.
NARROW = 120
#: Seconds that may be waited for anything: half a year.
LONGEST = 1.5e7

#: The group of options about who takes operators, and in which layouts.
BACKENDS = "Backends and layouts"

Model = Annotated[Path, typer.Argument(help=".onnx, .pt2, Relax .json or TVMScript .py")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", help="Shape of an input, as x:1,3,224,224 or x:n,3,8,8."),
]
Wants = Annotated[
    list[str] | None,
    typer.Option(
        "--want",
        help="Layouts of an operator, as conv2d=NHWC. Default: as backends prefer.",
        autocompletion=wants,
        rich_help_panel=BACKENDS,
    ),
]
Backends = Annotated[
    str,
    typer.Option(
        "--backend", help="Comma-separated list.", autocompletion=backends, rich_help_panel=BACKENDS
    ),
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        help="An operator's backend, or backend.pattern: conv2d=onednn, softmax=tvm.",
        autocompletion=forces,
        rich_help_panel=BACKENDS,
    ),
]


@contextmanager
def working() -> Iterator[Console]:
    """A console on standard error that shows what is done, if it is a terminal."""
    from rich.console import Console

    console = Console(file=stderr())
    with showing(console):
        yield console


@contextmanager
def refusing(model: Path) -> Iterator[None]:
    """What TVM, a backend or an option's parser raises, as a `UserError`.

    What other code of ours raises goes on: it is a fault, and said to be one.
    """
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        raise UserError(os_error(error)) from error
    except (TypeError, ValueError) as error:
        from ...frontend.checks.error import one_line

        raise UserError(one_line(error)) from error
    except Exception as error:  # TVM and its code generation raise what they like
        from ...frontend.checks.error import is_ours, one_line

        if is_ours(error):
            raise
        raise UserError(f"{model}: {one_line(error)}") from error


@contextmanager
def telling(console: Console) -> Iterator[None]:
    """What opinfo warns of is told when all is done."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for w in told:
        if w.category is UserWarning or w.category.__module__.startswith("opinfo."):
            say(console, str(w.message))


def say(console: Console, text: str) -> None:
    console.print(f"opinfo: {one(text)}", markup=False, highlight=False, soft_wrap=True)


def loaded(model: Path, shapes: Sequence[str] | None) -> Any:
    """Raises as `frontend.load` does, and `UserError` for two shapes of one input."""
    from ... import frontend

    found = [frontend.parse_shape(text) for text in shapes or ()]
    once("--shape", [(name, ",".join(map(str, shape))) for name, shape in found])
    return frontend.load(model, dict(found))


def readable(model: Path, shapes: Sequence[str] | None) -> Any:
    """As :func:`loaded`; a file that cannot be read is a `UserError`, another error a fault."""
    from ...frontend import FrontendError

    try:
        return loaded(model, shapes)
    except FrontendError as error:
        raise UserError(str(error)) from error


def show(tables: Sequence[Table], summary: str) -> None:
    """Tables with empty lines between them, then a line."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    text = io.StringIO()
    out = Console(file=text, force_terminal=terminal, width=None if terminal else WIDE)
    for table in tables:
        out.print(_fitted(_printable(table), terminal), "")
    out.print(one(summary), markup=False, highlight=False, soft_wrap=True, end="")
    write(text.getvalue())


def narrow() -> bool:
    """Whether standard output is a terminal on which wide tables lose too much."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and shutil.get_terminal_size().columns < NARROW


def _fitted(table: Table, terminal: bool) -> Table:
    """A row is one line of a terminal: the widest column ends in an ellipsis where it must.

    Elsewhere, in a file or a pipe, nothing is left out. A table without a head is prose.
    """
    if terminal and table.show_header and table.row_count:
        table.expand = True
        for column in table.columns:
            column.no_wrap, column.overflow = True, "ellipsis"
        max(table.columns, key=lambda c: max(len(str(cell)) for cell in c._cells)).ratio = 1
    return table


def _printable(table: Table) -> Table:
    """The table with cells of one line: what stands in them may be names of a model."""
    from rich.text import Text

    for column in table.columns:
        for k, cell in enumerate(column._cells):
            if isinstance(cell, Text):
                cell.plain = printable(cell.plain)
            else:
                column._cells[k] = printable(cell) if isinstance(cell, str) else cell
    return table


def positive(value: float | None) -> float | None:
    """A number of seconds, as a callback of typer's."""
    if value is not None and not 0 < value <= LONGEST:
        raise typer.BadParameter(
            f"expected a positive number of seconds, at most {LONGEST}, got {value}"
        )
    return value


def once(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The values of an option by name. Raises `UserError` for a name that comes again."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise UserError(f"{option} {name}: expected once, got {found[name]} and {value}")
        found[name] = value
    return found


def forced(texts: Sequence[str] | None) -> dict[str, str]:
    """``--force conv2d=onednn``."""
    pairs = []
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise UserError(f"--force {text}: expected OPERATOR=BACKEND")
        pairs.append((name, place))
    return once("--force", pairs)
