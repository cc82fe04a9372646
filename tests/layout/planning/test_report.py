"""What a plan's report says, as text and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

from opinfo.layout import plan_layout
from opinfo.layout.alternatives.op_spec import OpSpec
from opinfo.layout.graph.relax_graph import Graph, Op
from opinfo.layout.model.layout import Layout
from opinfo.layout.report import explain
from opinfo.layout.report.axis_letters import letters
from opinfo.layout.report.plan_report import (
    Conversion,
    Conversions,
    OpChoice,
    PlanReport,
    ValueChoice,
    columns,
    size,
)

from .. import nets

NCHW, NHWC = Layout.identity(4), Layout.parse("NHWC")
REPORT = PlanReport(
    values=(
        ValueChoice("x", (1, 3, 8, 8), "float32", NCHW, "a parameter"),
        ValueChoice("y", (1, 16, 8, "n"), "float32", NHWC, "conv2d writes it so"),
    ),
    conversions=(Conversion("x", NCHW, NHWC, 768, "x is pinned, conv2d wants NHWC", ("y",)),),
    ops=(OpChoice("y", "relax.nn.conv2d", "NHWC/OHWI", "wanted"),),
    objective=768.0,
    bound=768.0,
    counting=lambda: Conversions(3, 3 * 1024),
)


def test_what_is_left_is_the_sum_of_the_conversions() -> None:
    assert REPORT.after == Conversions(1, 768)
    assert PlanReport().after == Conversions(0, 0)


def test_table_names_what_moved_and_why() -> None:
    table = REPORT.table()
    assert "y      float32[1, 16, 8, n]  NHWC    conv2d writes it so" in table
    assert "NCHW -> NHWC" in table and "x is pinned, conv2d wants NHWC" in table
    assert "a parameter" not in table  # x stays as it was
    assert table.splitlines()[-1] == (
        "conversions: 3 (3.0 KiB) before, 1 (768 B) after; 1 of 2 values in another layout; "
        "the plan is optimal; symbolic extents count as 64"
    )
    worse = replace(REPORT, status="feasible", bound=700.0)
    cost = worse.certainty().split("; ")[1]
    assert cost == "the plan costs 768, any plan at least 700 (feasible)"


def test_json_has_every_value_and_can_be_read_back() -> None:
    data = json.loads(json.dumps(REPORT.to_json()))
    assert [v["layout"] for v in data["values"]] == ["NCHW", "NHWC"]
    assert data["values"][1]["shape"] == [1, 16, 8, "n"]
    assert data["before"] == {"number": 3, "bytes": 3072}
    assert data["after"] == {"number": 1, "bytes": 768}
    assert data["conversions"][0]["consumers"] == ["y"]
    conv = {"name": "y", "op": "relax.nn.conv2d", "implementation": "NHWC/OHWI", "why": "wanted"}
    assert data["ops"] == [{**conv, "met": True}]


def test_sizes_and_columns() -> None:
    assert [size(1023), size(1024), size(3 * 1024**2)] == ["1023 B", "1.0 KiB", "3.0 MiB"]
    assert columns(("a", "b"), []) == ""
    assert columns(("a", "b"), [("long", "c")]) == "a     b\nlong  c"


def test_values_are_called_by_the_letters_of_their_operators() -> None:
    """Letters by position made NWCH4w of NCHW4c for a tensor in NHWC."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        nn = relax.op.nn
        y = emit(nn.conv2d(x, nets.const(rng, 8, 3, 3, 8), padding=1, data_layout="NHWC",
                           kernel_layout="OHWI"))  # fmt: skip
        return emit(relax.op.mean(emit(nn.relu(y)), [1]))

    report = plan_layout(nets.net(build, (1, 16, 16, 8)), {"conv2d": ["NCHW4c", "OIHW4i4o"]}).report
    layouts = {v.name: v.layout.spell() for v in report.values}
    assert (layouts["x0"], layouts["lv"], layouts["lv1"]) == ("NHWC", "NCHW4c", "NCHW4c")
    assert report.values[-1].layout.axes == "NWC"
    assert report.conversions[0].source.spell() == "NHWC"
    assert report.conversions[0].target.spell() == "NCHW4c"
    assert {o.implementation for o in report.ops if o.op != "mean"} == {"NCHW4c"}


def test_letters_do_not_pass_from_packed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reshape that reads as unpacking has the string ABC8c for a value of four dimensions."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(relax.op.nn.conv2d(x, nets.const(rng, 64, 3, 1, 1)))
        y = emit(relax.op.permute_dims(y, [3, 0, 1, 2]))
        return emit(relax.op.reshape(y, (16, 1, 512)))

    def packed(graph: Graph, specs: Mapping[Op, OpSpec]) -> Any:
        last = graph.ops[-1]
        return letters(graph, {**specs, last: replace(specs[last], strings=("ABC8c", "ABC"))})

    monkeypatch.setattr(explain, "letters", packed)
    report = plan_layout(nets.net(build, (1, 3, 8, 16)), {"conv2d": ["NHWC", "OHWI"]}).report
    assert [v.layout.axes for v in report.values[:2]] == ["NCHW", "NCHW"]
