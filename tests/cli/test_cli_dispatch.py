"""`opinfo dispatch` and the page and times of `opinfo compile`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner, Result

from opinfo.byoc import Code, Region, dispatch, register
from opinfo.byoc.codegen.host_target import cpu as native_cpu
from opinfo.byoc.matching.diagnose import FallbackOp
from opinfo.byoc.measure import Excluded, Measured, Timing
from opinfo.cli import app
from opinfo.cli.options.want_options import parse_wants
from opinfo.layout.model.layout import Layout
from opinfo.layout.report.plan_report import Conversion, PlanReport, ValueChoice
from opinfo.picture.compiled import compiled_page
from opinfo.report.regions import reasons
from opinfo.verify.verification import Verified

from ..byoc.backends import toy
from ..byoc.backends.toy import TOY
from ..layout import nets
from ..report.test_picture import _Parser

nn, op = relax.op.nn, relax.op


def _net(emit: Any, rng: Any, x: Any, row: Any) -> Any:
    """toy takes add → relu; a sum that broadcasts, and tanh, stay."""
    y = emit(nn.relu(emit(op.add(x, x))))
    return emit(op.tanh(emit(op.add(y, row))))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    register(TOY)
    path = tmp_path / "net.json"
    path.write_text(tvm.ir.save_json(nets.net(_net, (4, 8), (8,), legal=False)))
    return path


def run_cli(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


LINE = "offloaded 2 of 4 ops, 50.0% of FLOPs, toy 2, tvm 2; 0 layout conversions"


def test_one_line_and_nothing_is_built(model: Path) -> None:
    got = run_cli("dispatch", model, "--backend", "toy,tvm")
    assert got.exit_code == 0, got.output
    (line,) = got.stdout.splitlines()
    assert re.sub(r"\d+\.\d%", "50.0%", line) == LINE
    assert [p.name for p in model.parent.iterdir()] == ["net.json"]


def test_explain_groups_what_is_left_by_reason(model: Path) -> None:
    got = run_cli("dispatch", model, "--backend", "toy,tvm", "--explain")
    lines = [line for line in got.stdout.splitlines() if line.strip()]
    assert lines[-1].startswith("offloaded 2 of 4 ops")
    costs = next(k for k, line in enumerate(lines) if line.startswith("backend"))
    assert "toy" in lines[costs + 1] and "us (estimated)" in lines[costs + 1]
    assert "tvm" in lines[costs + 1]
    heads = [line for line in lines[:costs] if not line.startswith(" ")]
    assert sorted(line.split(":")[0] for line in heads) == ["1 x relax.add", "1 x relax.tanh"]
    assert any("toy, pattern pointwise: an operand is broadcast" in line for line in heads)
    assert costs == 4 and len(lines) == 7  # each with its example


def test_operators_with_one_reason_are_one_line_with_a_few_examples() -> None:
    stays = [FallbackOp(f"lv{k}", "relax.tanh", "no pattern", "", "" if k else "/a/Tanh")
             for k in range(5)]  # fmt: skip
    stays.append(FallbackOp("lv9", "relax.add", "other", "force add=toy"))
    assert reasons(stays) == [
        "5 x relax.tanh: no pattern",
        "    /a/Tanh (lv0), lv1, lv2 and 2 more",
        "1 x relax.add: other",
        "    lv9",
        "    to change that: force add=toy",
    ]


def test_json_has_what_was_taken_and_what_is_left(model: Path) -> None:
    got = run_cli("dispatch", model, "--backend", "toy,tvm", "--force", "relu=tvm", "--json")
    found = json.loads(got.stdout)
    assert found["status"] == "optimal" and found["layouts"]["conversions"] == []
    assert [(t["backend"], t["pattern"], t["ops"]) for t in found["taken"]] == [
        ("toy", "pointwise", ["relax.add"])
    ]
    whys = {o["op"]: (o["why"], o["mend"]) for o in found["left"]}
    assert whys["relax.nn.relu"][1] in ("force relu=toy.pointwise", "force relu=toy.relu")
    assert whys["relax.tanh"] == ("no pattern of toy has relax.tanh", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["absent.onnx"], "absent.onnx: no such file"),
        (["MODEL", "--backend", "fpga"], "unknown backend 'fpga'"),
        (["MODEL", "--backend", "toy, fpga"], "unknown backend 'fpga'"),
        (["MODEL", "--backend", ""], "--backend: expected a value, got an empty one"),
        (
            ["MODEL", "--backend", "toy", "--force", "relu"],
            "--force relu: expected",
        ),
        (["MODEL", "--backend", "toy", "--force", "tanh=toy"], "tanh"),
        (["MODEL", "--backend", "toy", "--want", "conv2d"], "--want 'conv2d': expected the form"),
        (["MODEL", "--backend", "toy", "--shape", "x"], "shape 'x': expected the form"),
    ],
)
def test_errors_are_one_line(
    model: Path, words: list[str], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    got = run_cli("dispatch", *(str(model) if w == "MODEL" else w for w in words))
    err = capfd.readouterr().err
    assert (got.exit_code, got.stdout) == (2, "")
    assert err.startswith("opinfo: ") and err.count("\n") == 1 and line in err


def test_compile_verifies_times_and_writes_a_page(model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    got = run_cli("compile", model, "-o", tmp_path / "net.so", "--backend", "toy,tvm", "--verify",
               "--report", page)  # fmt: skip
    assert got.exit_code == 0, got.output
    cpu, first, written, head, unmodified, compiled, *advice, last = got.stdout.splitlines()
    assert written == f"written: {tmp_path / 'net.so'}"
    assert cpu == f"compiled for llvm, {native_cpu()}, 1 core"
    assert first.startswith("offloaded 2 of 4 ops") and last.startswith("outputs differ by")
    assert head.split()[:1] == ["build"] and unmodified.split()[0] == "unmodified"
    before, after = float(unmodified.split()[1]), float(compiled.split()[1])
    assert before > 0 and after > 0 and compiled.split()[-1] in ("faster", "slower", "fast")
    assert bool(advice) == compiled.endswith("slower")
    text = page.read_text()
    assert "<summary>Times" in text and "net.json" in text and "toy, pattern pointwise" in text


def _unfinished(regions: Sequence[Region]) -> Code:
    if any(r.find("relax.nn.relu") for r in regions):
        raise NotImplementedError("relu comes later")
    return toy.convert(regions)


def test_a_failed_region_is_reported_in_every_output(model: Path, tmp_path: Path) -> None:
    register(replace(TOY, convert=_unfinished))
    message = ("toy, pattern relu, region lv1 (relax.nn.relu): its converter failed: "
               "NotImplementedError: relu comes later")  # fmt: skip
    page = tmp_path / "page.html"
    got = run_cli("compile", model, "-o", tmp_path / "net.so", "--backend", "toy,tvm", "--verify",
               "--explain", "--report", page)  # fmt: skip
    assert got.exit_code == 0, got.output
    lines = got.stdout.splitlines()
    assert lines[1].startswith("offloaded 1 of 4 ops")
    assert lines[-1] == f"1 region failed, run by tvm: {message}"
    assert lines[-2].startswith("outputs differ by") and f"{message}; run by tvm" in lines
    assert "<summary>What failed" in page.read_text() and "relu comes later" in page.read_text()
    (failed,) = json.loads(run_cli("dispatch", model, "--backend", "toy", "--json").stdout)[
        "failed"
    ]
    assert failed["ops"] == ["relax.nn.relu"] and failed["value"] == "lv1"
    assert (failed["stage"], failed["now"]) == ("convert", ["tvm"])
    got = run_cli("dispatch", model, "--backend", "toy")
    assert got.stdout.splitlines()[1:] == [f"1 region failed, run by tvm: {message}"]


@pytest.mark.parametrize(("changes", "line"), [
    ({"convert": _unfinished}, "--strict: 1 region failed, run by tvm: toy, pattern relu"),
    ({"available": lambda: "no license"}, "--strict: toy is not available: no license"),
])  # fmt: skip
def test_strict_makes_it_an_error(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], changes: Any, line: str
) -> None:
    register(replace(TOY, **changes))
    got = run_cli("compile", model, "-o", tmp_path / "net.so", "--backend", "toy,tvm", "--strict")
    err = capfd.readouterr().err
    assert (got.exit_code, got.stdout) == (2, "")
    assert err.startswith(f"opinfo: {line}") and err.count("\n") == 1
    assert not (tmp_path / "net.so").exists()


def test_a_page_that_cannot_be_written_is_one_line(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "absent" / "page.html"
    got = run_cli("compile", model, "-o", tmp_path / "net.so", "--backend", "toy", "--report", page)
    assert got.exit_code == 2
    assert f"{page}: folder {page.parent} does not exist\n" in capfd.readouterr().err
    assert not (tmp_path / "net.so").exists()


def test_the_page_has_everything_and_needs_no_network() -> None:
    done = dispatch(nets.net(_net, (4, 8), (8,)), [TOY])
    nchw, nhwc = Layout.identity(4), Layout.parse("NHWC")
    report = PlanReport(
        values=(ValueChoice("v", (1, 4, 6, 8), "float32", nhwc, "<b> reads it so"),),
        conversions=(Conversion("x", nchw, nhwc, 768, "toy wants NHWC", ("v",)),),
    )
    timings = (
        Timing("toy", ("relax.add",), ("float32[4, 8]",), Measured(12.5), False),
        Timing("toy", ("relax.exp",), ("float32[4, 8]",), Excluded("it hangs"), True),
    )
    done = replace(done, report=report, timings=timings)
    text = compiled_page("a <model>", done, Verified(2e-7, 1.0, 4.0, 5))
    parser = _Parser()
    parser.feed(text)
    assert parser.open == [] and parser.outside == []
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"@import|@[A-Z]+@|<script src", text)
    cells = re.findall(r"<td[^>]*>(.*?)(?:<span|</td>)", text.replace("<wbr>", ""))
    assert "<h1>a &lt;model&gt; <span>" in text
    for expected in ("toy", "pointwise", "relax.nn.relu", "relax.tanh", "toy wants NHWC", "12.5 us",
                     "&lt;b&gt; reads it so", "excluded: it hangs", "this run", "the database",
                     "4.000", "1.000", "4.0x faster"):  # fmt: skip
        assert expected in cells, expected
    assert "Conversions left" in text and "outputs differ by 2.0e-07" in text


def test_what_is_not_a_number_is_not_the_same() -> None:
    assert Verified(0.0, 1.0, 1.0, 1).same and not Verified(float("nan"), 1.0, 1.0, 1).same
    assert not Verified(0.01, 1.0, 1.0, 1).same


def test_what_is_wanted_as_the_mend_says_is_taken() -> None:
    """A convolution in NCHW, of float16: the example's device has NHWC."""

    def conv(emit: Any, rng: Any, x: Any) -> Any:
        half, w = emit(op.astype(x, "float16")), nets.const(rng, 8, 4, 3, 3).value.numpy()
        return emit(nn.conv2d(half, relax.const(w.astype("float16")), padding=1))

    mod = nets.net(conv, (1, 4, 6, 6))
    (why,) = (o for o in dispatch(mod, ["example_npu"]).left if o.op == "relax.nn.conv2d")
    assert why.why == "example_npu, pattern network: data_layout is NCHW, expected NHWC"
    assert why.suggestion == "want conv2d=NHWC,OHWI"
    desired = parse_wants([why.suggestion.removeprefix("want ")])
    done = dispatch(mod, ["example_npu"], layouts="best", desired=desired)
    assert [t.ops for t in done.taken] == [("relax.nn.conv2d",)]


def test_without_a_compiler_that_is_said(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    got = run_cli("compile", model, "-o", tmp_path / "model.so", "--backend", "tvm")
    assert got.exit_code == 2
    assert "no C++ compiler on PATH: install g++ or clang++" in capfd.readouterr().err


def test_an_operator_that_is_only_a_function_of_tvm_can_be_forced(tmp_path: Path) -> None:
    mod = nets.net(lambda e, r, x: e(nn.relu6(x)), (4, 8))
    register(TOY)
    with pytest.raises(ValueError, match="toy has no pattern other"):
        dispatch(mod, [TOY], force={"relu6": "toy.other"})
    assert dispatch(mod, [TOY], force={"relu6": "tvm"}).left[0].op == "relax.nn.relu6"
