"""What is answered of a PrimFunc is about its own buffers, unless another reading is asked for."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax, s_tir

import opinfo
from opinfo.analysis import (
    Annotation,
    Chain,
    LayoutNormalised,
    OpInfo,
    Refusal,
    annotation,
    layout_normalised,
    op_info,
    op_infos,
)
from opinfo.analysis.annotate import annotate
from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.analysis.support.tvm_compat import StmtSimplify
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.front.inspection import inspect

from ...byoc.raising.test_raise_relaid import calling
from ...common.prim_funcs import lowered


def moved(op: Any, shape: tuple[int, ...], place: tuple[str, int], order: Any) -> Any:
    """The PrimFunc of an operator, with one of its buffers in another layout."""
    func = lowered(op, shape)
    sch = s_tir.Schedule(tvm.IRModule({"main": copied(func)}))
    last = sch.get_child_blocks(sch.get_sblock("root"))[-1]
    sch.transform_layout(last, place, order)
    return StmtSimplify()(sch.mod)["main"]


@pytest.fixture(scope="module")
def tan() -> Any:
    """tan of the transposed input."""
    return moved(relax.op.tan, (4, 6), ("write", 0), lambda i, j: (j, i))


def test_an_operator_over_other_buffers_is_refused(tan: Any) -> None:
    """A converter that reads name and attributes would compute tan of the unchanged input."""
    info = op_info(tan)
    assert isinstance(info, Refusal)
    assert "relax.tan" in info.reason and "layout_normalised" in info.where


def test_it_is_a_value_of_its_own_type_where_it_is_asked_for(tan: Any) -> None:
    found = layout_normalised(tan)
    assert isinstance(found, LayoutNormalised) and not isinstance(found, OpInfo)
    assert not hasattr(found, "name") and not hasattr(found, "attrs")
    assert found.logical.name == "relax.tan" and found.layouts == ("AB", "BA")
    x, out = found.buffers
    assert x is not None and out is not None and x.identity and not out.identity


def test_a_plain_operator_is_its_own_normal_form() -> None:
    func = moved(relax.op.tan, (4, 6), ("write", 0), lambda i, j: (i, j))
    info, found = op_info(func), layout_normalised(func)
    assert isinstance(info, OpInfo) and isinstance(found, LayoutNormalised)
    assert found.logical == info and all(b is not None and b.identity for b in found.buffers)


def test_a_step_over_other_buffers_has_the_name_of_no_operator(tan: Any) -> None:
    chain = op_infos(tan)
    assert isinstance(chain, Chain)
    (step,) = chain.steps
    assert step.name == "layout_normalised(relax.tan)" and not isinstance(step.info, OpInfo)
    assert chain.names == (step.name,) and step.operator.name == "relax.tan"
    assert "layout_normalised" in repr(step) and "name" not in step.to_json()


def test_an_annotation_has_the_name_of_no_operator(tan: Any) -> None:
    found = annotation(annotate(tvm.IRModule({"main": tan}))["main"])
    assert isinstance(found, Annotation)
    assert found.names == ("layout_normalised(relax.tan)",)
    assert found.ops[0]["maps"] == ["[i0, i1]", "[i1, i0]"]


def test_a_report_says_that_it_is_of_other_buffers(tan: Any) -> None:
    report = inspect(tan)
    (row,) = report.to_json()["rows"]
    assert row["op"] is None and row["refusal"] is None
    assert row["layout_normalised"]["layouts"] == ["AB", "BA"]
    assert "layout_normalised(relax.tan(%0); %0 at AB, %1 at BA)" in report._repr_html_()


def test_it_is_not_raised(tan: Any) -> None:
    (kept,) = raise_ops(calling(tan, 1)).kept
    assert kept.reason == "the buffers are in the layouts AB, BA"


def test_layout_attributes_say_how_a_pool_lies() -> None:
    def pool(x: Any) -> Any:
        return relax.op.nn.max_pool2d(x, (2, 2), (2, 2))

    info = op_info(moved(pool, (2, 8, 6, 6), ("write", 0), lambda n, c, h, w: (w, c, n, h)))
    assert isinstance(info, OpInfo) and info.relayout is not None
    assert (info.attrs["layout"], info.attrs["out_layout"]) == ("NCHW", "WCNH")


def test_a_pool_over_packed_channels_is_one_in_two_dimensions() -> None:
    def pool(x: Any) -> Any:
        return relax.op.nn.max_pool2d(x, (2, 2), (2, 2), layout="NCHW4c")

    info = op_info(moved(pool, (1, 2, 8, 8, 4), ("write", 0), lambda *i: i))
    assert isinstance(info, OpInfo) and not info.relaid and info.packed
    assert (info.name, info.attrs["layout"]) == ("relax.nn.max_pool2d", "NCHW4c")


def test_a_pool_in_three_dimensions_that_lowers_so_stays_one() -> None:
    def pool(x: Any) -> Any:
        return relax.op.nn.max_pool3d(x, (2, 2, 1), (2, 2, 1))

    info = op_info(lowered(pool, (1, 2, 8, 8, 4)))
    assert isinstance(info, OpInfo) and info.name == "relax.nn.max_pool3d"


def test_a_plan_of_operators_over_other_buffers_says_what_is_absent(tan: Any) -> None:
    with pytest.warns(UserWarning, match="the model has no conv2d"):
        opinfo.plan(calling(tan, 1), {"conv2d": "NHWC"})
