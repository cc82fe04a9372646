"""Options with a name are given once for each name, and nothing that is said acts on a terminal."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from opinfo.analysis import RecogniserWarning
from opinfo.analysis.support.progress import stage
from opinfo.cli.options.measure_options import MeasureOptions
from opinfo.cli.options.shared_options import forced, loaded
from opinfo.cli.run.console_messages import reporting_warnings
from opinfo.cli.run.exit_status import UserError, status_of
from opinfo.cli.run.progress_bar import showing

NAME = "a\x1b]0;PWNED\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("second", ["x:6,8", "x:5,8"])
def test_an_input_has_one_shape(second: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--shape x: expected once, got 5,8 and [56],8$"):
        loaded(tmp_path / "absent.py", ["x:5,8", "y:1", second])


def test_an_operator_is_forced_once() -> None:
    with pytest.raises(UserError, match=r"^--force relu: expected once, got toy and tvm$"):
        forced(["relu=toy", "relu=tvm"])


def test_an_extent_has_its_values_once() -> None:
    tuning = MeasureOptions(timeout=1.0, extents=["n=1,16", "n=2"])
    with pytest.raises(ValueError, match=r"^--extent n: expected once, got 1,16 and 2$"):
        tuning.measure("llvm", lambda *_: None)


def test_a_warning_cannot_act_on_a_terminal() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=300)
    with reporting_warnings(console):
        warnings.warn(NAME, RecogniserWarning, stacklevel=1)
        warnings.warn(f"{NAME}\nfake line", UserWarning, stacklevel=1)
    lines = file.getvalue().splitlines()
    assert len(lines) == 2 and all(line.isprintable() and "PWNED" in line for line in lines)


def test_a_stage_cannot_act_on_a_terminal() -> None:
    file = io.StringIO()
    with showing(Console(file=file, force_terminal=True, width=200)):
        stage(f"comparing with {NAME}")
    assert "PWNED" in file.getvalue()
    assert not any(c in file.getvalue() for c in ("\x1b]", "\x07", "\x1b[2J\x9b", "\x9b"))


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_traceback_cannot_act_on_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> Any:
        warnings.warn(f"warned {NAME}", UserWarning, stacklevel=1)
        raise KeyError(NAME) from Mute(NAME)

    assert status_of(fail, traceback=True) == 1
    errors = capfd.readouterr().err
    assert (
        "PWNED" in errors
        and "Traceback" in errors
        and "UserWarning: warned" in errors
        and len(errors.splitlines()) > 3
    )
    assert all(c.isprintable() or c == "\n" for c in errors)


class Mute(Exception):
    """Its text is not escaped by ``repr``."""
