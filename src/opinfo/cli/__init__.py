"""The commands: `opinfo inspect`, `plan`, `dispatch`, `compile`, `specialize`, `tune`, `cache`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point of the `opinfo` script; exits with the command's status."""
    from .run.exit_status import status_of

    loud = "--traceback" in sys.argv[1:] or bool(os.environ.get("OPINFO_TRACEBACK"))
    sys.exit(status_of(_run, loud))


def _run() -> int | None:
    """The command itself; what it needs is imported where an interrupt is expected."""
    from .commands import app

    found: int | None = app(args=sys.argv[1:], prog_name="opinfo", standalone_mode=False)
    return found


def __getattr__(name: str) -> Any:
    """`app` is imported when it is asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .commands import app

    return app
