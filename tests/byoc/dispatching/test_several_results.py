"""Regions with operators of several results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.recurrent.recurrence_operator import recurrence
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from ...common.run import run

nn, op = relax.op.nn, relax.op
SHAPE = (3, 8)
Build = Callable[[Any, Any], Any]


def _both(e: Any, x: Any) -> Any:
    """The values inside of the region, the places out of it."""
    found = e(op.topk(e(nn.relu(x)), 3, 1, "both", True, "int64"))
    return e(op.exp(e(relax.TupleGetItem(found, 0)))), e(relax.TupleGetItem(found, 1))


def _one_used(e: Any, x: Any) -> Any:
    found = e(op.topk(e(nn.relu(x)), 3, 1, "both", True, "int64"))
    return (e(op.add(e(relax.TupleGetItem(found, 1)), relax.const(1, "int64"))),)


def _taken_twice(e: Any, x: Any) -> Any:
    found = e(op.topk(x, 3, 1, "both", True, "int64"))
    first, again = (e(relax.TupleGetItem(found, 0)) for _ in range(2))
    return e(op.add(first, again)), e(op.exp(again)), first


def _outside_between(e: Any, x: Any) -> Any:
    """What no region takes reads one result, and a region reads it and the other one."""
    found = e(op.topk(x, 3, 1, "both", True, "int64"))
    values, places = (e(relax.TupleGetItem(found, k)) for k in range(2))
    wide = e(op.astype(e(op.astype(values, "float64")), "float32"))
    return (e(op.multiply(wide, e(op.astype(places, "float32")))),)


def _alone(e: Any, x: Any) -> Any:
    found = e(op.topk(x, 3, 1, "both", True, "int64"))
    return tuple(e(relax.TupleGetItem(found, k)) for k in range(2))


NETS: dict[str, tuple[Build, list[int]]] = {
    "both": (_both, [3]),
    "one used": (_one_used, [3]),
    "taken twice": (_taken_twice, [3]),
    "outside between": (_outside_between, [1, 2]),
    "alone": (_alone, [1]),
}


def _module(build: Build, dataflow: bool = True) -> Any:
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        if not dataflow:
            bb.emit_func_output(bb.emit(relax.Tuple(build(bb.emit, x))))
            return bb.get()
        with bb.dataflow():
            out = bb.emit_output(relax.Tuple(build(bb.emit, x)))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.part
@pytest.mark.parametrize("dataflow", [True, False], ids=["dataflow", "no dataflow"])
@pytest.mark.parametrize("name", NETS)
def test_a_region_computes_what_tvm_computes(name: str, dataflow: bool) -> None:
    build, sizes = NETS[name]
    mod = _module(build, dataflow)
    found = compile_module(mod, ["onnxruntime"])
    if dataflow:
        assert sorted(len(t.ops) for t in found.dispatched.taken) == sizes
    assert any("relax.topk" in t.ops for t in found.dispatched.taken)
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    outputs = found.machine()["main"](tvm.runtime.tensor(x))
    for a, b in zip(run(mod, [x]), outputs, strict=True):
        assert a.dtype == b.numpy().dtype
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-5, atol=1e-6)


def test_a_tuple_that_is_read_as_a_whole_stays_one() -> None:
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.topk(bb.emit(nn.relu(x)), 3, 1, "both", True, "int64"))
        bb.emit_func_output(out)
    found = compile_module(bb.get(), ["onnxruntime"])
    assert [t.ops for t in found.dispatched.taken] == [("relax.nn.relu", "relax.topk")]
    data = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    outputs = found.machine()["main"](tvm.runtime.tensor(data))
    for a, b in zip(run(bb.get(), [data]), outputs, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-5, atol=1e-6)


def _layer(weights: bool, whole: bool = False, batch: int = 1, **attrs: Any) -> Any:
    """An LSTM of 2 units; ``weights``: constants. ``whole``: its work memory is a result too."""
    rng = np.random.default_rng(0)
    shapes = [(5, batch, 8), (2, 8), (8,), (batch, 2), (batch, 2)]
    xs = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    bb = relax.BlockBuilder()
    with bb.function("main", xs):
        with bb.dataflow():
            operands = [*xs]
            if weights:
                operands[1:3] = [relax.const(rng.standard_normal(s).astype("float32"))
                                 for s in shapes[1:3]]  # fmt: skip
            usual = {"cell": "LSTM", "activations": ("Sigmoid", "Tanh", "Tanh")}
            found = bb.emit(recurrence(operands, **{**usual, **attrs}))
            item = bb.emit(relax.TupleGetItem(found, 3 if whole else 0))
            out = bb.emit_output(op.add(item, item))
        bb.emit_func_output(out)
    return prepare(bb.get(), ["onnxruntime"])


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "weights": ("onnxruntime", {"weights": False}, "the recurrent weight is not constant"),
    "work": ("onnxruntime", {"weights": True, "whole": True}, "its work memory is read"),
    "activation": ("onnxruntime", {"weights": True, "activations": ("Softsign", "Tanh", "Tanh")},
                   "the activation is Softsign, expected one of Sigmoid, Tanh, Relu"),
    "batch": ("openvino", {"weights": True, "batch": 2}, "the batch is 2, expected 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_layer_that_onnx_does_not_have_is_refused(name: str) -> None:
    backend, options, reason = REFUSED[name]
    left = dispatch(_layer(**options), [backend]).left
    assert any(o.op == "relax.nn.recurrence" and reason in o.why for o in left), left
