"""What the commands share: the app, one-line errors, what is shown while they work."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .. import frontend
from ..frontend.error import one_line
from ..quiet import quiet

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

UNREADABLE = 2
#: How wide tables are where standard output is no terminal.
WIDE = 160

Model = Annotated[Path, typer.Argument(help=".onnx, .pt2, Relax .json or TVMScript .py")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", help="Shape of an input, like x:1,3,224,224 or x:n,3,8,8."),
]
Wants = Annotated[
    list[str] | None,
    typer.Option("--want", help="Layouts of an operator, conv2d=NHWC; else what backends want."),
]
Backends = Annotated[str, typer.Option("--backend", help="Backends, by comma: onednn,tvm.")]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force", help="An operator's backend, or backend.pattern: conv2d=onednn, softmax=tvm."
    ),
]


class Problem(Exception):
    """What the user can mend; the message is one line."""


@contextmanager
def working() -> Iterator[Console]:
    """A console on standard error. A :class:`Problem` is one line there, and exit status 2."""
    with quiet() as stderr:
        console = Console(file=stderr)
        try:
            yield console
        except Problem as error:
            say(console, str(error))
            raise typer.Exit(UNREADABLE) from None


@contextmanager
def refusing(model: Path) -> Iterator[None]:
    """What TVM, a backend or an option's parser raises, as a :class:`Problem`."""
    try:
        yield
    except Problem:
        raise
    except (frontend.FrontendError, TypeError, ValueError, OSError) as error:
        raise Problem(one_line(error)) from error
    except Exception as error:  # TVM and its code generation raise what they like
        raise Problem(f"{model}: {one_line(error)}") from error


@contextmanager
def telling(console: Console) -> Iterator[None]:
    """What opinfo warns of is told when all is done."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for w in told:
        if w.category is UserWarning:
            say(console, str(w.message))


def say(console: Console, text: str) -> None:
    console.print(f"opinfo: {text}", markup=False, highlight=False, soft_wrap=True)


def loaded(model: Path, shapes: Sequence[str] | None) -> Any:
    """Raises as `frontend.load` does."""
    return frontend.load(model, dict(map(frontend.parse_shape, shapes or ())))


def status(console: Console, text: str) -> AbstractContextManager[object]:
    return console.status(text) if console.is_terminal else nullcontext()


def bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def show(tables: Sequence[Table], summary: str) -> None:
    """Tables with empty lines between them, then a line."""
    out = Console(width=None if sys.stdout.isatty() else WIDE)
    for table in tables:
        out.print(table, "")
    out.print(summary, markup=False, highlight=False, soft_wrap=True)


def forced(texts: Sequence[str] | None) -> dict[str, str]:
    """``--force conv2d=onednn``."""
    out = {}
    for text in texts or ():
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise Problem(f"--force {text}: expected OPERATOR=BACKEND")
        out[name] = place
    return out
