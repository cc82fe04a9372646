"""The command line, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from opinfo.cli import main


@pytest.fixture
def opinfo(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opinfo", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main()
        out, err = capfd.readouterr()
        assert isinstance(exited.value.code, int)
        return exited.value.code, out, err

    return run
