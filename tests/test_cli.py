"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from opinfo.cli import main

MODEL = """
from tvm.script import tirx as T

@T.prim_func
def mystery(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for k in range(32):
        B[k // 8, k % 8] = T.exp(A[k // 8, k % 8])

@T.prim_func
def odd(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = T.cos(A[i]) * T.exp(A[3 - i])
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


@dataclass(frozen=True)
class Told:
    """What a command printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


Opinfo = Callable[..., Told]


@pytest.fixture
def opinfo(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Opinfo:
    """Run the command line in this process: the redirection of its streams is at their files."""

    def run(*args: str | Path) -> Told:
        monkeypatch.setattr(sys, "argv", ["opinfo", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main()
        return Told(int(exited.value.code or 0), *capfd.readouterr())

    return run


def test_table(model: Path, opinfo: Opinfo) -> None:
    told = opinfo("inspect", model)
    assert (told.returncode, told.stderr) == (0, "")
    line = next(line for line in told.stdout.splitlines() if line.startswith("mystery"))
    assert "relax.exp(%0)" in line and "kElemWise" in line
    assert "1 of 2 PrimFuncs recovered" in told.stdout


def test_json(model: Path, opinfo: Opinfo) -> None:
    told = opinfo("inspect", model, "--json")
    rows = {row["func"]: row for row in json.loads(told.stdout)["rows"]}
    assert rows["mystery"]["op"]["name"] == "relax.exp"
    assert rows["mystery"]["op"]["certificate"]["kind"] in ("rebuilt", "proved")
    assert rows["odd"]["op"] is None and rows["odd"]["refusal"]["reason"]


def test_explain_one_function(model: Path, opinfo: Opinfo) -> None:
    told = opinfo("inspect", model, "--func", "odd", "--explain").stdout
    assert "%0: float32[4]" in told and "not recognised: " in told
    assert "mystery" not in told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["absent.onnx"], "absent.onnx: no such file"),
        (["MODEL", "--func", "mistery"], "no PrimFunc is called 'mistery'; there are 2, like"),
        (["MODEL", "--shape", "x"], "shape 'x' is not of the form"),
    ],
)
def test_errors_are_one_line_and_exit_status_two(
    model: Path, opinfo: Opinfo, args: list[str], told: str
) -> None:
    got = opinfo("inspect", *(str(model) if arg == "MODEL" else arg for arg in args))
    assert got.returncode == 2 and got.stdout == ""
    assert got.stderr.startswith("opinfo: ") and got.stderr.count("\n") == 1
    assert told in got.stderr


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "opinfo", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("opinfo ") and "apache-tvm 0.27" in told.stdout


def test_fused_prints_chains(opinfo: Opinfo, model: Path) -> None:
    told = opinfo("inspect", model, "--fused", "--func", "mystery")
    assert told.returncode == 0, told.stderr
    assert "$0 = relax.exp(%0)" in told.stdout
    assert "1 of 1 PrimFuncs read as chains of 1 operators" in told.stdout
    found = json.loads(opinfo("inspect", model, "--fused", "--json").stdout)
    assert {row["func"] for row in found["rows"]} == {"mystery", "odd"}
    assert opinfo("inspect", model, "--fused", "--func", "none").returncode == 2
