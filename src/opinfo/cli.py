"""The command line: `opinfo inspect MODEL`."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Recover operators, attributes and layouts from TIR, with proof."""


def main() -> None:
    """Entry point of the `opinfo` script."""
    app()
