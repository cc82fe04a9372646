"""The examples run and do what their documentation says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import tvm

from opinfo.analysis import Refusal, annotation
from tests.models import light

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_schedule_conv_is_timed_and_equal(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "schedule_conv.py"))
    assert example["main"]() > 0  # about 30 on an idle machine
    assert "x faster, outputs equal" in capsys.readouterr().out


def test_seeded_weights_are_the_same_each_time_and_no_fill_is_left() -> None:
    import onnx

    example = runpy.run_path(str(EXAMPLES / "seeded_weights.py"))
    one, two = (example["seeded"](onnx.load(light.path("squeezenet"))) for _ in range(2))
    assert one == two and not any(n.op_type == "ConstantOfShape" for n in one.graph.node)
    onnx.checker.check_model(one)
    values = onnx.numpy_helper.to_array(one.graph.initializer[-1])
    assert values.dtype == "float32" and values.std() > 0


def test_tiles_follow_strides_and_groups() -> None:
    example = runpy.run_path(str(EXAMPLES / "schedule_conv.py"))
    attrs = {"strides": [1, 1], "groups": 1}
    assert example["tiles"]({"attrs": attrs}, (1, 64, 32, 32)) == (4, 16)
    assert example["tiles"]({"attrs": {**attrs, "strides": [2, 2]}}, (1, 64, 32, 32)) == (4, 8)
    assert example["tiles"]({"attrs": {**attrs, "groups": 64}}, (1, 64, 32, 28)) == (1, 14)


def test_a_stale_annotation_is_not_scheduled_by() -> None:
    example = runpy.run_path(str(EXAMPLES / "schedule_conv.py"))
    scheduled = example["schedule"](example["fused"]())
    assert isinstance(annotation(scheduled), Refusal)
    tvm.ir.assert_structural_equal(example["schedule"](scheduled), scheduled)


@pytest.mark.slow
def test_the_page_of_a_real_model_is_written(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "plan_page.py"))
    text = example["write"]("ocr_det", tmp_path).read_text()
    assert "ch_PP-OCRv4_det_infer.onnx" in text
    assert text.count('"kind":"new"') <= 2 and text.count('"kind":"op"') > 200
