"""`opinfo.inspect` and its report."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis import Certificate, Constant, OpInfo, Refusal
from opinfo.analysis.answer.recovered import Recovered
from opinfo.frontend.formats.from_script import from_text
from opinfo.report.render import call
from tests.cli.test_cli import MODEL

inspect_module = importlib.import_module("opinfo.front.inspection")

RELAX = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(a)
            c = R.nonzero(b)
            R.output(c)
        return c
"""


def _info(name: str, operands: tuple[int | Constant, ...], **attrs: Any) -> OpInfo:
    certificate = Certificate("proved", exact=False, assumptions=("sums may be reordered",))
    return OpInfo(name, attrs, operands, "kOpaque", ("", ""), certificate)


def test_module_is_legalised_on_a_copy_and_sites_are_counted() -> None:
    mod = from_text(RELAX)
    before = tvm.ir.save_json(mod)
    report = opinfo.inspect(mod)
    assert tvm.ir.save_json(mod) == before
    (row,) = report.rows
    assert (row.func, row.sites, row.buffers) == ("tir_exp", 2, ("float32[n, 8]", "float32[n, 8]"))
    assert isinstance(row.result, OpInfo) and row.result.name == "relax.exp"
    assert report.others == (("relax.call_pure_packed(relax.run.nonzero)", 1),)
    assert report.sites() == (2, 2)


def test_a_prim_func_is_a_report_of_one_row() -> None:
    (row,) = opinfo.inspect(from_text(MODEL)["odd"]).rows
    assert isinstance(row.result, Refusal) and row.func == "odd"


def test_equal_functions_are_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def analyse(func: Any, *, alternatives: bool) -> Recovered:
        calls.append(func)
        return Recovered(Refusal("not asked"))

    monkeypatch.setattr(inspect_module, "analyse", analyse)
    mod = relax.transform.LegalizeOps()(from_text(RELAX))
    func = mod["tir_exp"]
    twins = {f"twin{i}": func.with_attr("global_symbol", f"twin{i}") for i in range(3)}
    report = opinfo.inspect(tvm.IRModule({**twins, "odd": from_text(MODEL)["odd"]}))
    assert [row.func for row in report.rows] == ["odd", "twin0", "twin1", "twin2"]
    assert len(calls) == 2


def test_an_internal_error_is_reported_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = inspect_module.analyse

    def analyse(func: Any, *, alternatives: bool) -> Any:
        if len(func.params) == 2 and "cos" in str(func):
            raise RuntimeError("boom")
        return real(func, alternatives=alternatives)

    monkeypatch.setattr(inspect_module, "analyse", analyse)
    report = opinfo.inspect(from_text(MODEL))
    (refused,) = report.refused
    assert isinstance(refused.result, Refusal) and "RuntimeError: boom" in refused.result.reason
    assert [row.func for row in report.known] == ["mystery"]
    assert report["odd"] is refused
    with pytest.raises(KeyError, match=r"is named 'od'; the report has 2, such as \['odd'"):
        report["od"]


def test_progress_counts_up_to_the_end() -> None:
    seen: list[tuple[int, int, str]] = []
    opinfo.inspect(from_text(MODEL), lambda *step: seen.append(step))
    assert seen == [(0, 2, "mystery"), (1, 2, "odd"), (2, 2, "")]


def test_other_subjects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a PrimFunc, a module or the path.*got 3"):
        opinfo.inspect(3)
    with pytest.raises(opinfo.FrontendError, match="conv2d: expected a suffix of"):
        opinfo.inspect("conv2d")
    with pytest.raises(KeyError, match="no PrimFunc is named 'mistery'"):
        opinfo.inspect(from_text(MODEL), func="mistery")


def test_calls_leave_out_defaults() -> None:
    conv = _info(
        "relax.nn.conv2d", (0, 1), strides=(1, 1), padding=(0, 0, 0, 0), dilation=(2, 2), groups=1,
        data_layout="NHWC", kernel_layout="OIHW", out_layout="NHWC",
    )  # fmt: skip
    assert call(conv) == "relax.nn.conv2d(%0, %1, dilation=[2, 2], data_layout='NHWC')"
    padded = _info("relax.nn.conv2d", (0, 1), padding=(0, 1))
    assert call(padded) == "relax.nn.conv2d(%0, %1, padding=[0, 1])"
    assert call(_info("relax.add", (0, Constant(2.0, "float32")))) == "relax.add(%0, 2.0)"


def test_renderings_agree() -> None:
    info = _info("relax.add", (0, Constant(2.0, "float32")))
    report = opinfo.Report(
        (
            opinfo.Row("<f>", 3, info, ("float32[4]", "float32[4]")),
            opinfo.Row("g", 1, Refusal("no recogniser", "at <B>")),
        ),
        (("relax.cumsum", 1),),
    )
    assert report.summary() == (
        "1 of 2 PrimFuncs recovered (1 proved); 3 of 4 call sites (75.0%); "
        "no PrimFunc: relax.cumsum x1"
    )
    text, html = repr(report), report._repr_html_()
    assert "relax.add(%0, 2.0)" in text and report.summary() in text
    assert "&lt;f&gt;" in html and "<f>" not in html and "at &lt;B&gt;" in html
    explained = report.explain()
    assert "equal up to the assumptions" in explained and "sums may be reordered" in explained
    data = json.loads(json.dumps(report.to_json()))
    assert data["sites"] == {"recovered": 3, "total": 4} and data["others"] == {"relax.cumsum": 1}
    assert data["rows"][0]["op"]["name"] == "relax.add" and data["rows"][1]["op"] is None


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda x: relax.op.ccl.allreduce(x, "sum"), "calls the extern function runtime.disco"),
        (
            lambda x: relax.op.unique(x),
            "calls the extern function relax.run.unique, which is not TIR",
        ),
    ],
)
def test_calls_outside_tir_say_why(build: Any, reason: str) -> None:
    x = relax.Var("x", relax.TensorType((4, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(build(x)))
    report = opinfo.inspect(builder.get())
    (refusal,) = report.outside
    assert reason in refusal.reason and reason in report.explain()


def test_the_output_of_a_row_is_a_buffer_and_no_size() -> None:
    n, builder = tvm.tirx.Var("n", "int64"), relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((n * 2, 4), "float32"))
    with builder.function("main", [x, relax.Var("s", relax.ShapeType([n]))]):
        builder.emit_func_output(builder.emit(relax.op.nn.softmax(x)))
    (row,) = opinfo.inspect(builder.get()).rows
    assert row.buffers[1] == "int64" and row.output == row.buffers[2] != "int64"
    assert f"<code>{row.output}</code>" in opinfo.inspect(builder.get())._repr_html_()


def test_what_is_named_is_there() -> None:
    assert all(getattr(opinfo, name) is not None for name in opinfo.__all__)
    assert opinfo.byoc.dispatch is not None


def test_in_a_notebook_the_text_is_returned_and_nothing_is_displayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = opinfo.inspect(from_text(RELAX))
    expected = repr(report)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *_: pytest.fail("displayed"))
    assert repr(report) == expected and "relax.exp(%0)" in expected
