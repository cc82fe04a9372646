"""Options that several commands have, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..run.exit_status import UserError
from .completion import backends, forces, wants

if TYPE_CHECKING:
    from ...byoc.calibration.calibration import Calibration

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
