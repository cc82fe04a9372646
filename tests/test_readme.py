"""Every snippet of the README runs, and prints what the README says it prints."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models import light

TEXT = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the models that the README names lie."""
    for name in set(re.findall(r"light_(\w+)\.onnx", TEXT)):
        shutil.copy(light.path(name), tmp_path)
    _export(tmp_path / "mlp.pt2")
    return tmp_path


def _export(path: Path) -> None:
    """The model that the README exports in Python and compiles on the command line."""
    import torch

    layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    dims = ({0: torch.export.Dim("n", max=512)},)
    net = torch.nn.Sequential(*layers)
    torch.export.save(torch.export.export(net, (torch.zeros(2, 64),), dynamic_shapes=dims), path)


def _run(command: list[str], folder: Path) -> list[str]:
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    return [line.rstrip() for line in told.stdout.splitlines()]


def test_python_snippets(folder: Path) -> None:
    (folder / "readme.py").write_text("\n".join(b for kind, b in BLOCKS if kind == "python"))
    expected = [line for kind, block in BLOCKS if kind == "text" for line in block.splitlines()]
    assert expected and _run([sys.executable, "readme.py"], folder) == expected


def test_console_snippets(folder: Path) -> None:
    shown = [block.splitlines() for kind, block in BLOCKS if kind == "console"]
    assert shown
    for command, *expected in shown:
        words = shlex.split(command.removeprefix("$ "))
        assert words[0] == "opinfo"
        printed = _run([sys.executable, "-m", *words], folder)
        missing = [line for line in expected if line != "..." and line.rstrip() not in printed]
        assert not missing
