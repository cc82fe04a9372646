"""Attributes are plain values, and TIR over the variables of the PrimFunc that was asked about."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import Chain, LayoutNormalised, OpInfo, layout_normalised, op_info, op_infos
from opinfo.analysis.results.plain_values import to_plain
from opinfo.front.inspection import inspect
from opinfo.testing.rebuild import check_rebuilt, strangers, variables

from ...common.prim_funcs import lowered, prim_func


def reshape(dtype: str = "float16") -> Any:
    n = tirx.Var("n", "int64")
    return lowered(lambda x: relax.op.reshape(x, (n * 2, 3)), ((n, 6), dtype))


def test_dimensions_are_over_the_variables_of_the_function_that_was_asked_about() -> None:
    """Two functions of one structure have answers of their own, though the analysis is shared."""
    one, two = reshape(), reshape()
    report = inspect(module(one=one, two=two))
    chains = {name: op_infos(f) for name, f in (("one", one), ("two", two))}
    for f, row in zip((one, two), report.rows, strict=True):
        chain = chains[row.func]
        assert isinstance(chain, Chain) and isinstance(row.result, OpInfo)
        answers = (op_info(f), row.result, chain.steps[0].info)
        for info in answers:
            assert isinstance(info, OpInfo)
            assert not strangers(info.attrs["shape"], variables(f))
            assert to_plain(info.attrs["shape"]) == ["n * 2", 3]


def module(**funcs: Any) -> Any:
    return tvm.IRModule({k: f.with_attr("global_symbol", k) for k, f in funcs.items()})


def test_answers_with_dimensions_are_equal_and_can_be_kept() -> None:
    func = reshape()
    info, again = op_info(func), op_info(func)
    assert isinstance(info, OpInfo)
    check_rebuilt(func, info)
    assert info == again and hash(info) == hash(again)
    assert len({info, again}) == 1
    assert info != op_info(reshape())  # over other variables
    assert pickle.loads(pickle.dumps(info)).to_json() == info.to_json()
    assert copy.deepcopy(info).to_json() == info.to_json()
    found = layout_normalised(func)
    assert isinstance(found, LayoutNormalised) and found == layout_normalised(func)
    x, out = found.buffers
    assert x is not None and out is not None and x.shape[1] == 6
    assert not strangers((*x.shape, *out.shape), variables(func))


def test_a_literal_operand_is_a_number_and_is_bound_in_its_type() -> None:
    x = relax.Var("x", relax.TensorType((4,), "float16"))
    info = op_info(prim_func(lambda x: relax.op.subtract(relax.const(2.0, "float16"), x), [x]))
    assert isinstance(info, OpInfo)
    assert (info.operands, dict(info.attrs)) == ((0,), {"x1": 2.0})
    bound = info.bind([x])
    assert list(bound) == ["x1", "x2"] and bound["x2"].same_as(x)
    assert str(bound["x1"].ty.dtype) == "float16"
    assert pickle.loads(pickle.dumps(info)) == info
    with pytest.raises(
        ValueError, match=r"relax.subtract reads the parameters \[0\].*got 0 values"
    ):
        info.bind([])
