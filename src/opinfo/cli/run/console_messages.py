"""What commands report on standard error: progress, warnings, and errors as one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .exit_status import UserError, os_error, single_line, stderr
from .progress_bar import showing

if TYPE_CHECKING:
    from rich.console import Console


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
