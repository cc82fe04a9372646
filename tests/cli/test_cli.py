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
    """Run the command line in this process, redirecting its file descriptors."""

    def run(*args: str | Path) -> Told:
        monkeypatch.setattr(sys, "argv", ["opinfo", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main()
        return Told(int(exited.value.code or 0), *capfd.readouterr())

    return run


def test_table(model: Path, opinfo: Opinfo) -> None:
    result = opinfo("inspect", model)
    assert (result.returncode, result.stderr) == (0, "")
    line = next(line for line in result.stdout.splitlines() if line.startswith("mystery"))
    assert "relax.exp(%0)" in line and "kElemWise" in line
    assert "1 of 2 PrimFuncs recovered" in result.stdout


def test_json(model: Path, opinfo: Opinfo) -> None:
    result = opinfo("inspect", model, "--json")
    rows = {row["func"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["mystery"]["op"]["name"] == "relax.exp"
    assert rows["mystery"]["op"]["certificate"]["kind"] in ("rebuilt", "proved")
    assert rows["odd"]["op"] is None and rows["odd"]["refusal"]["reason"]


def test_explain_one_function(model: Path, opinfo: Opinfo) -> None:
    output = opinfo("inspect", model, "--func", "odd", "--explain").stdout
    assert "%0: float32[4]" in output and "not recognised: " in output
    assert "mystery" not in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["absent.onnx"], "absent.onnx: no such file"),
        (["MODEL", "--func", "mistery"], "no PrimFunc is named 'mistery'; the module has 2"),
        (["MODEL", "--shape", "x"], "shape 'x': expected the form"),
    ],
)
def test_errors_are_one_line_and_exit_status_two(
    model: Path, opinfo: Opinfo, args: list[str], message: str
) -> None:
    got = opinfo("inspect", *(str(model) if arg == "MODEL" else arg for arg in args))
    assert got.returncode == 2 and got.stdout == ""
    assert got.stderr.startswith("opinfo: ") and got.stderr.count("\n") == 1
    assert message in got.stderr


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "opinfo", "--version"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.startswith("opinfo ") and "apache-tvm 0.27" in process.stdout


def test_fused_prints_chains(opinfo: Opinfo, model: Path) -> None:
    result = opinfo("inspect", model, "--fused", "--func", "mystery")
    assert result.returncode == 0, result.stderr
    assert "$0 = relax.exp(%0)" in result.stdout
    assert "1 of 1 PrimFunc read as chains of 1 operator" in result.stdout
    found = json.loads(opinfo("inspect", model, "--fused", "--json").stdout)
    assert {row["func"] for row in found["rows"]} == {"mystery", "odd"}
    assert opinfo("inspect", model, "--fused", "--func", "none").returncode == 2


NET = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((1, 8, 16, 16), "float32"), w: R.Tensor((8, 8, 3, 3), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.nn.relu(R.nn.conv2d(x, w, padding=[1, 1, 1, 1]))
            b = R.permute_dims(a, [0, 2, 3, 1])
            y = R.nn.softmax(b, axis=-1)
            R.output(y)
        return y
"""
SIZE = 8 * 16 * 16 * 4


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_plan_says_what_is_converted_and_why(net: Path, opinfo: Opinfo) -> None:
    result = opinfo("plan", net, "--want", "conv2d=NHWC,OHWI")
    assert (result.returncode, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "a" in lines["NHWC"].replace(",", "").split() and "y" not in lines
    assert lines["x"].split()[1:5] == ["NCHW", "NHWC", "8.0", "KiB"]
    assert "relax.nn.conv2d is requested in NHWC OHWI" in lines["x"]
    assert "1 (8.0 KiB) before, 1 (8.0 KiB) after" in result.stdout
    explained = opinfo("plan", net, "--want", "conv2d=NHWC,OHWI", "--explain").stdout
    assert any(line.split()[:2] == ["y", "softmax"] for line in explained.splitlines())


def test_plan_as_json_and_page(net: Path, opinfo: Opinfo, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = opinfo("plan", net, "--want", "conv2d=NHWC", "--json", "--html", page)
    found = json.loads(result.stdout)
    assert found["counted"] == {"before": {"number": 1, "bytes": SIZE},
                                "after": {"number": 1, "bytes": SIZE}}  # fmt: skip
    assert found["status"] == "optimal" and found["objective"] == pytest.approx(found["bound"])
    layouts = {v["name"]: v["layout"] for v in found["values"]}
    assert (layouts["x"], layouts["a"]) == ("NCHW", "NHWC")
    assert [c["consumers"] for c in found["conversions"]] == [["lv"]]
    text = page.read_text()
    assert "net.py" in text and "relax.nn.conv2d(%0, %1, padding=[1, 1, 1, 1])" in text


def test_plan_without_wants_removes_what_cancels(net: Path, opinfo: Opinfo) -> None:
    result = opinfo("plan", net, "--json")
    after = json.loads(result.stdout)["counted"]["after"]
    assert result.returncode == 0 and after["number"] <= 1


@pytest.mark.parametrize(
    ("wants", "message"),
    [
        (["conv2d"], "--want 'conv2d': expected the form conv2d=NHWC"),
        (["conv2d=NHWC", "conv2d=NCHW"], "--want conv2d: expected once, got"),
        (["conv5d=NHWC"], "unknown Relax operator 'conv5d'"),
        (["conv2d=NHWQ"], "'NHWQ'"),
    ],
)
def test_plan_refuses_wants_in_one_line(
    net: Path, opinfo: Opinfo, wants: list[str], message: str
) -> None:
    got = opinfo("plan", net, *(word for want in wants for word in ("--want", want)))
    assert got.returncode == 2 and got.stdout == ""
    assert got.stderr.startswith("opinfo: ") and got.stderr.count("\n") == 1
    assert message in got.stderr


@pytest.mark.parametrize("command", ["inspect", "compile", "tune"])
def test_the_usage_names_the_argument_as_errors_do(opinfo: Opinfo, command: str) -> None:
    usage = next(line for line in opinfo(command, "--help").stdout.splitlines() if "Usage" in line)
    assert usage.split()[-1] == ("RECORD" if command == "tune" else "MODEL")
