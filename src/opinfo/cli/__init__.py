"""The command line: `opinfo inspect`, `plan`, `dispatch`, `compile`, `tune`, `cache` and more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the `opinfo` script and exit with the command's status."""
    from .run.exit_status import status_of, traceback_wanted

    sys.exit(status_of(_run, traceback_wanted(sys.argv[1:])))


def _run() -> int | None:
    """Run the command; heavy imports happen here, where interrupts are handled."""
    from ..analysis.support.garbage import rare_collections
    from ..byoc.process.without_torch import leave_out_torch

    leave_out_torch()
    with rare_collections():
        from .commands import app

        status: int | None = app(args=sys.argv[1:], prog_name="opinfo", standalone_mode=False)
    return status


def __getattr__(name: str) -> Any:
    """Import `app` lazily, on first access."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
