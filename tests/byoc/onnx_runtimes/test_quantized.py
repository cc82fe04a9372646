"""Quantised models: what stays of integers, what is refused and why, whole nets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from opinfo.byoc import CannotForce, dispatch, replay
from opinfo.byoc.backend.backend import Backend
from opinfo.byoc.backends.onednn.convert import convert
from opinfo.byoc.backends.onednn.cpu import has_int8
from opinfo.byoc.backends.onednn.int8 import QUANTIZED
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.prepare.prepare import Preparer, prepare
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.verify.verification import STEPS, verified

from ...common.run import run
from ...layout import nets
from ..onednn.int8_cases import Q, dequantized
from . import qdq

nn, op = relax.op.nn, relax.op
SMALL = Backend("small", QUANTIZED, convert)
#: What is decided does not depend on this CPU; what oneDNN computes is exact where it has them.
EXACT = has_int8()
CONV, PRODUCT = "small, pattern conv_int8: ", "small, pattern matmul_int8: "


@pytest.fixture(autouse=True)
def instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that has products of int8."""
    monkeypatch.setattr("opinfo.byoc.backends.onednn.int8.has_int8", lambda: True)


DATA, WEIGHTS = Q("int8", 0.02, 3), Q("int8", (0.01, 0.02, 0.03, 0.04), 0, 0)


@dataclass(frozen=True)
class Conv:
    """A quantised convolution; the defaults are what backends take."""

    x: Q = DATA
    w: Q = WEIGHTS
    layout: tuple[str, str] = ("NHWC", "OHWI")
    scale: bool = False
    shared: bool = False

    def module(self) -> Any:
        shape = tuple({"N": 1, "H": 6, "W": 6, "C": 4}[c] for c in self.layout[0])
        kernel = tuple({"O": 4, "H": 3, "W": 3, "I": 4}[c] for c in self.layout[1])
        x = relax.Var("x", relax.TensorType(shape, self.x.dtype))
        s = relax.Var("s", relax.TensorType((), "float32"))
        bb = relax.BlockBuilder()
        with bb.function("main", [x, s]):
            with bb.dataflow():
                a = dequantized(bb.emit, self.x, x)
                if self.scale:
                    a = bb.emit(op.dequantize(x, s, self.x.parameters()[1], out_dtype="float32"))
                w = np.random.default_rng(0).integers(0, 127, kernel).astype(self.w.dtype)
                y = bb.emit(
                    nn.conv2d(
                        a,
                        dequantized(bb.emit, self.w, relax.const(w)),
                        padding=1,
                        data_layout=self.layout[0],
                        kernel_layout=self.layout[1],
                    )
                )
                out = bb.emit_output(relax.Tuple([y, a]) if self.shared else y)
            bb.emit_func_output(out)
        return bb.get()


TAKEN = Conv()
REFUSED: dict[str, tuple[Conv, str]] = {
    "weights around another zero": (
        replace(TAKEN, w=Q("int8", 0.02, 5)), "the weights' zero point is 5, expected 0"),
    "weights of uint8": (
        replace(TAKEN, w=Q("uint8", 0.02)), "the weights are uint8, expected int8"),
    "scales along inputs": (
        replace(TAKEN, w=replace(TAKEN.w, axis=3)),
        "the weights have scales along axis 3, that of output channels is 0"),
    "scales by channel of the data": (
        replace(TAKEN, x=Q("int8", (0.1, 0.2, 0.3, 0.4), 0, 3)),
        "relax.dequantize has one scale per channel, expected one for the whole tensor"),
    "data of int16": (
        replace(TAKEN, x=Q("int16", 0.02)),
        "relax.dequantize has the dtypes int16 and float32, expected int8 or uint8 and float32"),
    "a scale that is computed": (
        replace(TAKEN, scale=True), "scale is computed, expected a constant"),
    "channels first": (
        replace(TAKEN, layout=("NCHW", "OIHW")), "data_layout is NCHW, expected NHWC for int8"),
    "read elsewhere too": (
        replace(TAKEN, shared=True),
        "operand 0 is not the result of a relax.dequantize that only it reads"),
}  # fmt: skip


def _why(mod: Any) -> list[str]:
    done = dispatch(relax.transform.LegalizeOps()(mod), [SMALL])
    return [o.why for o in done.left if o.op == "relax.nn.conv2d"]


def test_a_quantized_convolution_is_taken() -> None:
    assert _why(TAKEN.module()) == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_and_why(name: str) -> None:
    case, why = REFUSED[name]
    assert _why(case.module()) == [CONV + why]


def test_a_cpu_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onednn.int8.has_int8", lambda: False)
    message = "this CPU has no instructions for products of int8 (avx512_vnni)"
    assert _why(TAKEN.module()) == [CONV + message]
    with pytest.warns(UserWarning, match="computed in floating point: relax.nn.conv2d: this CPU"):
        ready = prepare(TAKEN.module(), ["onednn"])
    assert _operators(ready) == ["dequantize", "conv2d"]


def test_a_constant_may_be_quantized() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        by = relax.const(np.float32(0.5)), relax.const(np.int8(0))
        codes = emit(op.quantize(relax.const(np.array([0.5, 1, -3], "float32")), *by))
        return emit(op.add(x, emit(op.dequantize(codes, *by))))

    ready = prepare(nets.net(build, (3,), legal=False), ["onednn"])
    np.testing.assert_array_equal(run(ready, [np.ones(3, "float32")])[0], [1.5, 2, -2])


def test_refusals_are_reported_when_forced_or_folded() -> None:
    mod = REFUSED["weights around another zero"][0].module()
    with pytest.warns(
        UserWarning,
        match="1 quantised operator is computed in floating point: "
        "relax.nn.conv2d: the weights' zero point is 5",
    ):
        ready = prepare(mod, ["onednn"])
    assert _operators(ready) == ["dequantize", "conv2d"]
    lowered = relax.transform.LegalizeOps()(mod)
    with pytest.raises(CannotForce, match="the weights' zero point is 5, expected 0"):
        dispatch(lowered, ["onednn"], force={"conv2d": "onednn.conv_int8"})


def _operators(mod: Any) -> list[str]:
    """What main calls, in order."""
    calls: list[Any] = []
    for block in mod["main"].body.blocks:
        calls += [b.value for b in block.bindings if isinstance(b.value, relax.Call)]
    names = (getattr(c.args[0] if c.args else c.op, "name_hint", "") for c in calls)
    return [n if n.endswith("2d") else n.rstrip("0123456789") for n in names]


def _net(build: Callable[..., Any], shape: tuple[int, ...], dtype: str = "int8") -> Any:
    x = relax.Var("x", relax.TensorType(shape, dtype))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, x))
        bb.emit_func_output(out)
    return bb.get()


HALF = Q("int8", 0.5, 3)


def _again(emit: Any, y: Any, q: Q = HALF) -> Any:
    return emit(op.quantize(y, *q.parameters(), out_dtype=q.dtype))


MOVED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "reshaped": (lambda e, x: _again(e, e(op.reshape(dequantized(e, HALF, x), (2, 48)))),
                 ["reshape"]),
    "transposed": (lambda e, x: _again(e, e(op.permute_dims(dequantized(e, HALF, x),
                                                            [0, 2, 3, 1]))), ["transpose"]),
    "pooled": (lambda e, x: _again(e, e(nn.max_pool2d(
        dequantized(e, HALF, x), (2, 2), (2, 2), (1, 1)))), ["max_pool2d"]),
    "joined": (lambda e, x: _again(e, e(op.concat([dequantized(e, HALF, x), e(op.exp(
        dequantized(e, HALF, x)))], 1))), ["dequantize", "tir_exp", "quantize", "concatenate"]),
    "of another scale": (lambda e, x: _again(e, dequantized(e, HALF, x), Q("int8", 0.25, 3)),
                         ["dequantize", "quantize"]),
    "around another zero": (lambda e, x: _again(e, dequantized(e, HALF, x), Q("int8", 0.5)),
                            ["dequantize", "quantize"]),
    "to another type": (lambda e, x: _again(e, dequantized(e, HALF, x), Q("uint8", 0.5, 3)),
                        ["dequantize", "quantize"]),
    "a window of nothing but padding": (lambda e, x: _again(e, e(nn.max_pool2d(
        dequantized(e, HALF, x), (1, 1), (2, 2), (1, 1)))),
        ["dequantize", "max_pool2d", "quantize"]),
    "of several results": (lambda e, x: e(relax.TupleGetItem(e(op.split(
        dequantized(e, HALF, x), 2, 0)), 1)), ["dequantize", "split"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_is_done_to_the_integers(name: str) -> None:
    build, operators = MOVED[name]
    mod = _net(build, (2, 3, 4, 4))
    ready = prepare(mod, ["onednn"])
    assert _operators(ready) == operators
    x = np.random.default_rng(0).integers(-128, 127, (2, 3, 4, 4), endpoint=True).astype("int8")
    np.testing.assert_array_equal(run(ready, [x])[0], run(mod, [x])[0])


def test_scales_go_with_the_axis_that_is_moved() -> None:
    q = Q("int8", (0.1, 0.2, 0.3), 0, 1)
    w = np.arange(-6, 6).reshape(4, 3).astype("int8")
    mod = _net(lambda e, x: e(op.matmul(dequantized(e, HALF, x), e(op.permute_dims(
        e(op.permute_dims(dequantized(e, q, relax.const(w)))))))), (2, 4))  # fmt: skip
    ready = prepare(mod, ["onednn"])
    assert _operators(ready) == ["dequantize", "dequantize", "matmul"]
    assert [t.pattern for t in dispatch(ready, ["onednn"]).taken] == ["matmul_int8"]
    x = np.arange(-4, 4).reshape(2, 4).astype("int8")
    np.testing.assert_allclose(run(ready, [x])[0], HALF.real(x) @ q.real(w), rtol=1e-6)


def test_copies_that_nothing_takes_are_one_again() -> None:
    def build(emit: Any, x: Any) -> Any:
        y = dequantized(emit, HALF, x)
        return emit(relax.Tuple([emit(op.exp(y)), emit(op.tanh(y)), emit(op.sigmoid(y))]))

    assert _operators(prepare(_net(build, (2, 3)), ["onednn"])).count("dequantize") == 1


NETS = {"mobile": qdq.mobile, "residual": qdq.residual}


def test_preparers_share_only_what_no_backend_decides() -> None:
    mod = from_model(qdq.mobile(), {})
    shared = Preparer(mod)
    for names, relaid in ((("onnxruntime",), False), ((SMALL,), True), ((SMALL,), False),
                          (("onnxruntime",), False)):  # fmt: skip
        tvm.ir.assert_structural_equal(
            shared(names, relaid), prepare(mod, names, relaid=relaid), map_free_vars=True
        )
    integers, folded = _operators(shared((SMALL,), True)), _operators(shared((), True))
    assert integers != folded


@functools.cache
def compiled(name: str) -> tuple[Any, CompiledModule]:
    mod = from_model(NETS[name](), {})
    return mod, compile_module(mod, ["onednn"])


@pytest.mark.parametrize("name", NETS)
def test_whole_nets_are_computed_in_integers(name: str) -> None:
    mod, found = compiled(name)
    assert [o.op for o in found.dispatched.left] == []
    heavy = [t.pattern for t in found.dispatched.taken
             if any("conv" in o or "matmul" in o for o in t.ops)]  # fmt: skip
    nodes = [n.op_type for n in NETS[name]().graph.node]
    assert heavy == ["conv_int8"] * nodes.count("Conv") + ["matmul_int8"] * nodes.count("Gemm")
    for seed in range(3 * EXACT):
        x = np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype("float32")
        (expected,) = run(mod, [x])
        y = found.machine()["main"](tvm.runtime.tensor(x)).numpy()
        assert np.abs(y - expected).max() <= 1.001 * qdq.STEP
        assert len(np.unique(np.rint(expected / qdq.STEP))) > 5


def test_a_plan_is_done_again() -> None:
    ready = prepare(TAKEN.module(), ["onednn"])
    done = dispatch(ready, ["onednn"], layouts="best")
    assert [t.pattern for t in done.taken] == ["conv_int8"]
    assert replay(ready, done.plan).taken == done.taken


def test_steps_are_accepted_where_values_are_quantized() -> None:
    mod, found = compiled("residual")
    verification = verified(mod, found)
    assert verification.same >= EXACT and verification.tolerance == STEPS
    assert verification.outcome().endswith("; values are quantised, 1.6e-02 is accepted")
    assert not replace(verification, difference=3 / 127).same


def test_the_models_are_sound() -> None:
    for build in NETS.values():
        onnx.checker.check_model(build(), full_check=True)
