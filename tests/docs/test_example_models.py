"""Models of the documentation that are written into a checkout do not count as its files."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from examples.models import LIGHT

from .pages import ROOT


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no git")
@pytest.mark.parametrize("name", [*LIGHT, "mlp.pt2"])
def test_git_ignores(name: str) -> None:
    command = ["git", "check-ignore", "--no-index", "--quiet", name]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
