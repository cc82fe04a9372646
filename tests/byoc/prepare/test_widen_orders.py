"""Sorts of dtypes that TVM's own sort does not take."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.proposal.failed_call import NotLowered
from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.proposal.lowering.widen_orders import widen_orders
from opinfo.analysis.support.origin import span, with_span

NUMBERS = {
    "bfloat16": [3, -1, 0.5, -2],
    "bool": [1, 0, 1, 0],
    "int8": [3, -128, 127, 0],
    "uint8": [3, 200, 255, 0],
    "int16": [3, -(2**15), 2**15 - 1, 0],
    "uint16": [3, 2**15, 2**16 - 1, 0],
    "uint32": [3, 2**31, 2**32 - 1, 0],
    "uint64": [3, 2**63, 2**64 - 1, 0],
}


def _array(dtype: str) -> Any:
    return np.array(NUMBERS[dtype], ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _module(dtype: str) -> Any:
    x, builder = relax.Var("x", relax.TensorType([4], dtype)), relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            both = builder.emit(relax.op.topk(x, 3, -1, "both", True, "int64"))
            middle = builder.emit(relax.op.median(x, [0]))
            results = [
                relax.op.sort(x, -1),
                relax.op.argsort(x, -1, True, "int64"),
                relax.TupleGetItem(both, 0),
                relax.TupleGetItem(both, 1),
                relax.op.topk(x, 3, -1, "values", False),
                relax.op.topk(x, 3, -1, "indices", False, "int64"),
                relax.TupleGetItem(middle, 0) if hasattr(middle.ty, "fields") else middle,
            ]
            out = builder.emit_output(relax.Tuple([builder.emit(r) for r in results]))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_sorts_of_all_dtypes_are_numpys(dtype: str) -> None:
    data = _array(dtype)
    up = np.argsort(data, kind="stable")
    # Equal numbers keep their order: of bool, a descending order is not the ascending one reversed.
    down = np.array(sorted(range(4), key=lambda k: -float(data[k])))
    expected = [data[up], down, data[down[:3]], down[:3], data[up[:3]], up[:3], data[up[1]]]
    results = opinfo.compile(_module(dtype), []).run(data)
    for result, wanted in zip(results, expected, strict=True):
        result = np.asarray(result.numpy() if hasattr(result, "numpy") else result)
        assert result.dtype == wanted.dtype
        assert result.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_dtypes_that_tvm_sorts_stay(dtype: str) -> None:
    mod = _module(dtype)
    assert widen_orders(mod).same_as(mod)


def test_topk_of_bytes_stays_and_modules_are_not_changed() -> None:
    x, builder = relax.Var("x", relax.TensorType([4], "int8")), relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.topk(x, 3, -1, "values")))
    small = builder.get()
    assert widen_orders(small).same_as(small)
    mod = _module("bfloat16")
    before = tvm.ir.save_json(mod)
    legalise_module(mod)
    assert tvm.ir.save_json(mod) == before


@pytest.mark.parametrize("op", ["sort", "argsort", "topk", "cumsum"])
def test_a_sort_of_an_unknown_shape_is_refused_by_node(op: str) -> None:
    x, builder = relax.Var("x", relax.TensorType(ndim=1, dtype="float32")), relax.BlockBuilder()
    known = relax.Var("known", relax.TensorType([4], "float32"))
    make = getattr(relax.op, op)
    with builder.function("main", [known, x]):
        first = builder.emit(with_span(make(known, axis=0), span("the first node")))
        second = builder.emit(with_span(make(x, axis=0), span("node 'order'")))
        builder.emit_func_output(relax.Tuple([first, second]))
    text = rf"^node 'order': {op} of float32\[\?\] cannot be .*; give its tensor a known shape$"
    with pytest.raises(NotLowered, match=text):
        legalise_module(builder.get())
