"""Progress of a command on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...analysis.support.progress import listening, stage
from .command_group import silent
from .exit_status import single_line


@contextmanager
def showing(console: Console) -> Iterator[None]:
    """Show the current stage, if the console is a terminal."""
    if not console.is_terminal or silent.get():
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def shown(name: str, done: int, total: int) -> None:
            of = f" {min(done + 1, total)} of {total}" if total else ""
            progress.update(task, description=escape(single_line(name)) + of)

        with listening(shown):
            yield


def counting(act: str) -> Callable[[int, int, str], None]:
    """Return a callback for ``(done, total, name)`` that shows ``act name``."""

    def report(done: int, total: int, name: str) -> None:
        stage(f"{act} {name}".rstrip(), done, total)

    return report
