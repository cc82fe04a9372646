"""Options, error handling and output shared by the commands."""

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
from ..run.exit_status import UserError, emit, os_error, single_line, stderr, write
from ..run.progress_bar import showing
from .completion import backends, forces, wants

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ...byoc.calibration.calibration import Calibration

__all__ = [
    "UserError",
    "backend_names",
    "calibrated",
    "emit",
    "forced",
    "loaded",
    "once",
    "positive",
    "readable",
    "refusing",
    "reporting_warnings",
    "say",
    "show",
    "working",
]

#: Width of tables if standard output is not a terminal.
WIDE = 160
#: Terminals narrower than this show only the most important columns of a table.
NARROW = 120
#: Maximum of options in seconds: half a year.
LONGEST = 1.5e7

#: Title of the options about backends and layouts in the help.
BACKENDS = "Backends and layouts"

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help=".onnx, .pt2, Relax .json or TVMScript .py")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME:SIZES",
        help="Shape of an input: x:1,3,224,224, or x:n,3,8,8 with a symbolic n; ? as in the file.",
    ),
]
Wants = Annotated[
    list[str] | None,
    typer.Option(
        "--want",
        metavar="OPERATOR=LAYOUTS",
        help="Layouts of an operator: conv2d=NHWC; default: as backends prefer.",
        autocompletion=wants,
        rich_help_panel=BACKENDS,
    ),
]
Backends = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAMES",
        help="Comma-separated backends, which take what they can; default: all installed ones "
        "where they are expected to be faster.",
        autocompletion=backends,
        rich_help_panel=BACKENDS,
    ),
]
Calibrated = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help="Expected costs, a file of `opinfo calibrate`; default: those of this machine.",
        rich_help_panel=BACKENDS,
    ),
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        metavar="OPERATOR=BACKEND",
        help="Backend or backend.pattern of an operator: conv2d=onednn, softmax=tvm.",
        autocompletion=forces,
        rich_help_panel=BACKENDS,
    ),
]


@contextmanager
def working() -> Iterator[Console]:
    """Show progress on standard error if it is a terminal; yields the console."""
    from rich.console import Console

    console = Console(file=stderr())
    with showing(console):
        yield console


@contextmanager
def refusing(model: Path) -> Iterator[None]:
    """Convert errors of TVM, of backends and of option parsers to `UserError`.

    Any other error of opinfo itself propagates and is reported as an internal error.
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
    except Exception as error:  # TVM and its code generators may raise anything
        from ...byoc.codegen.compilers.toolchain import CompilerError
        from ...byoc.codegen.loading.cuda_device import NoGpu
        from ...byoc.codegen.loading.load_checked import LoadError
        from ...byoc.measure.measured import MeasureError
        from ...frontend.checks.error import is_ours, one_line

        if isinstance(error, (NoGpu, MeasureError)):
            raise UserError(one_line(error)) from error
        if isinstance(error, (CompilerError, LoadError)):
            raise UserError(f"{model}: its library cannot be built: {one_line(error)}") from error
        if is_ours(error):
            raise
        raise UserError(f"{model}: {one_line(error)}") from error


@contextmanager
def reporting_warnings(console: Console) -> Iterator[None]:
    """Collect opinfo's warnings, and print them at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for message in caught:
        if message.category is UserWarning or message.category.__module__.startswith("opinfo."):
            say(console, str(message.message))


def say(console: Console, text: str) -> None:
    console.print(f"opinfo: {single_line(text)}", markup=False, highlight=False, soft_wrap=True)


def loaded(model: Path, shapes: Sequence[str] | None) -> Any:
    """Load a model with shapes; raises as `load` does, and `UserError` for a repeated input."""
    from ... import frontend

    parsed = [frontend.parse_shape(text) for text in shapes or ()]
    once("--shape", [(name, ",".join(map(str, shape))) for name, shape in parsed])
    return frontend.load(model, dict(parsed))


def readable(model: Path, shapes: Sequence[str] | None) -> Any:
    """Load a model; a file that cannot be read is a `UserError`, any other error internal."""
    from ...frontend import FrontendError

    try:
        return loaded(model, shapes)
    except FrontendError as error:
        raise UserError(str(error)) from error


def calibrated(path: Path | None) -> Calibration | None:
    """Load the file of --calibration; raises ``ValueError`` or ``OSError``."""
    from ...byoc.calibration.calibration import Calibration

    return None if path is None else Calibration.load(path)


def show(tables: Sequence[Table], summary: str) -> None:
    """Print tables separated by empty lines, then the summary."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    text = io.StringIO()
    out = Console(file=text, force_terminal=terminal, width=None if terminal else WIDE)
    for table in tables:
        out.print(_fitted(_printable(table), terminal), "")
    out.print(single_line(summary), markup=False, highlight=False, soft_wrap=True, end="")
    write(text.getvalue())


def narrow() -> bool:
    """Return whether standard output is a terminal too narrow for wide tables."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and shutil.get_terminal_size().columns < NARROW


def _fitted(table: Table, terminal: bool) -> Table:
    """Fit rows to one line of a terminal by truncating the widest column.

    Files and pipes get complete rows. A table without a header is prose and is not truncated.
    """
    if terminal and table.show_header and table.row_count:
        table.expand = True
        for column in table.columns:
            column.no_wrap, column.overflow = True, "ellipsis"
        max(
            table.columns, key=lambda column: max(len(str(cell)) for cell in column._cells)
        ).ratio = 1
    return table


def _printable(table: Table) -> Table:
    """Escape control characters in cells, which may contain names from a model."""
    from rich.text import Text

    for column in table.columns:
        for k, cell in enumerate(column._cells):
            if isinstance(cell, Text):
                cell.plain = printable(cell.plain)
            else:
                column._cells[k] = printable(cell) if isinstance(cell, str) else cell
    return table


def positive(value: float | None) -> float | None:
    """Check a number of seconds, as a callback of typer."""
    if value is not None and not 0 < value <= LONGEST:
        raise typer.BadParameter(
            f"expected a positive number of seconds, at most {LONGEST}, got {value}"
        )
    return value


def once(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of an option by name; raises `UserError` for a repeated name."""
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise UserError(f"{option} {name}: expected once, got {values[name]} and {value}")
        values[name] = value
    return values


def backend_names(text: str) -> list[str]:
    """Parse ``--backend onednn,tvm``."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UserError(f"--backend {text!r}: expected names, as in --backend onednn,tvm")
    return names


def forced(texts: Sequence[str] | None) -> dict[str, str]:
    """Parse ``--force conv2d=onednn``."""
    pairs = []
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise UserError(f"--force {text}: expected OPERATOR=BACKEND")
        pairs.append((name, place))
    return once("--force", pairs)
