"""ONNX Runtime: whole parts of a graph as ONNX models, equal to what TVM computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .cases.onnx_case import call

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")
IMAGE = (2, 4, 7, 6)
Build = Callable[..., Any]


def _norm(e: Any, r: Any, x: Any) -> Any:
    return e(nn.layer_norm(x, const(r, 2), const(r, 2), axes=[0]))


def test_a_part_of_a_net_is_one_model_with_several_results() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 4, 4, 3, 3), padding=1))))
        z = emit(op.astype(y, "float64"))
        return emit(relax.Tuple([z, y, emit(op.add(y, x)), emit(op.mean(y, [2, 3]))]))

    mod = nets.net(build, IMAGE)
    found = compile_module(mod, ["onnxruntime"])
    assert [len(t.ops) for t in found.dispatched.taken] == [4]
    assert [o.op for o in found.dispatched.left] == ["relax.astype"]
    x = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    outputs = found.machine()["main"](tvm.runtime.tensor(x))
    for a, b in zip(run(mod, [x]), outputs, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[Build, tuple[Any, ...], str]] = {
    "ceil_mode": (call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1), ceil_mode=True,
                        count_include_pad=True),
                  ((1, 4, 6, 6),), "ceil_mode and count_include_pad are True"),
    "axes": (_norm, ((2, 5),), "axes is [0], expected the last axes"),
    "dtype": (lambda e, r, x: e(nn.relu(e(op.astype(x, "float64")))), ((2, 5),),
              "the dtype is float64, expected"),
    "extents": (lambda e, r, x, y: e(op.broadcast_to(x, (N, 5))), ((5,), (N, 1)),
                "extents that no operand has"),
    "output_size": (call(nn.adaptive_avg_pool2d, (5, 2)), (IMAGE,),
                    "output_size is [5, 2], expected 1 or divisors of [7, 6]"),
    "pixels": (call(op.image.resize2d, relax.ShapeExpr((21, 6)), layout="NCHW",
                     method="nearest_neighbor", rounding_method="floor"), (IMAGE,),
               "half_pixel with floor has coordinates that ONNX rounds to another pixel"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    left = dispatch(nets.net(build, *shapes), ["onnxruntime"]).left
    assert any(reason in o.why for o in left), left


def test_without_the_library_tvm_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onnxruntime.locate.library", lambda: None)
    mod = nets.net(call(nn.relu), (2, 3))
    with pytest.warns(UserWarning, match="onnxruntime is not available: libonnxruntime is not"):
        assert not dispatch(mod, ["onnxruntime"]).taken


def test_a_model_that_does_not_load_falls_back_with_a_warning() -> None:
    backend = find("onnxruntime")

    def broken(regions: Any) -> Any:
        code = backend.convert(regions)
        ((name, _),) = code.constants
        return replace(code, constants=((name, np.zeros(8, "uint8")),))

    mod = nets.net(call(nn.relu), (2, 3), legal=False)
    with pytest.warns(UserWarning, match=r"onnxruntime.*\): its library does not load"):
        found = compile_module(mod, [replace(backend, convert=broken)])
    assert not found.dispatched.taken


def test_a_region_takes_only_the_tensors_that_it_was_made_for() -> None:
    mod = nets.net(call(nn.relu), (N, 6), legal=False)
    found = compile_module(mod, ["onnxruntime"])
    made = tvm.runtime.load_module(str(found.library))
    relax.VirtualMachine(made, tvm.cpu())
    region = made.get_function("onnxruntime_0", query_imports=True)
    x, out = np.full((3, 6), -1, "float32"), tvm.runtime.tensor(np.ones((3, 6), "float32"))
    region(tvm.runtime.tensor(x), out)
    assert not out.numpy().any()
    for wrong, reason in ((x.astype("float64"), "argument 0"), (x[:, :5].copy(), "onnxruntime_0"),
                          (x[0], "onnxruntime_0")):  # fmt: skip
        with pytest.raises((TypeError, RuntimeError), match=reason):
            region(tvm.runtime.tensor(wrong), out)
    with pytest.raises(TypeError, match="1 arguments, expected 2"):
        region(out)
