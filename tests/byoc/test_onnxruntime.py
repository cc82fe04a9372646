"""ONNX Runtime: whole parts of a graph as ONNX models, equal to what TVM computes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.onnxruntime.ops import WRITE
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch

from ..layout import nets
from ..layout.nets import const
from ..run import run

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")
IMAGE = (2, 4, 7, 6)
Build = Callable[..., Any]


def _call(f: Callable[..., Any], *args: Any, **attrs: Any) -> Build:
    return lambda e, r, *xs: e(f(*xs, *args, **attrs))


def _each(*names: str) -> dict[str, tuple[Build, tuple[Any, ...]]]:
    return {n: (_call(getattr(op, n, None) or getattr(nn, n)), ((2, 5),)) for n in names}


def _positive(f: Callable[..., Any]) -> Build:
    return lambda e, r, x: e(f(e(op.add(e(op.abs(x)), relax.const(0.5)))))


def _conv(f: Any, *kernel: int, **attrs: Any) -> Build:
    return lambda e, r, x: e(f(x, const(r, *kernel), **attrs))


def _layer_norm(e: Any, r: Any, x: Any) -> Any:
    return e(nn.layer_norm(x, const(r, 5, 6), const(r, 5, 6), axes=[-2, -1]))


#: An operator each: ``build(emit, rng, *inputs)`` and the shapes of the inputs.
CASES: dict[str, tuple[Build, tuple[Any, ...]]] = {
    **_each("sigmoid", "tanh", "exp", "abs", "negative", "erf", "floor", "ceil", "sin", "cos",
            "square", "relu", "relu6", "gelu", "gelu_tanh", "silu"),
    **{n: (_positive(getattr(op, n)), ((2, 5),)) for n in ("log", "sqrt", "rsqrt")},
    "rank 0": (lambda e, r, x: e(op.add(e(op.sum(x)), relax.const(1.5))), ((2, 5),)),
    "leakyrelu": (_call(nn.leakyrelu, 0.1), ((2, 5),)),
    "clip": (_call(op.clip, -0.25, 0.5), ((2, 5),)),
    **{n: (_call(getattr(op, n)), ((N, 5), (3, 1, 5)))
       for n in ("add", "subtract", "multiply", "maximum", "minimum")},
    "divide": (lambda e, r, x: e(op.divide(relax.const(1.0), e(op.exp(x)))), ((2, 5),)),
    "power": (_call(op.power, relax.const(2.0)), ((2, 5),)),
    "conv1d": (_conv(nn.conv1d, 6, 4, 3, strides=2, padding=1), ((2, 4, 9),)),
    "conv2d": (_conv(nn.conv2d, 6, 2, 3, 2, groups=2, padding=(1, 0, 2, 1), dilation=(2, 1)),
               ((N, 4, 7, 6),)),
    "conv3d": (_conv(nn.conv3d, 4, 3, 2, 3, 3, padding=(0, 1, 1)), ((1, 3, 4, 5, 6),)),
    "conv2d_transpose": (_conv(nn.conv2d_transpose, 4, 3, 3, 3, strides=(2, 2), groups=2, padding=(
        1, 1, 1, 1), output_padding=(1, 1)), (IMAGE,)),
    "max_pool2d": (_call(nn.max_pool2d, (3, 2), (2, 1), (1, 0, 1, 1), (1, 2)), (IMAGE,)),
    "avg_pool2d": (_call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1)), (IMAGE,)),
    "avg_pool2d with padding": (_call(nn.avg_pool2d, (3, 3), (2, 2), (1, 1, 1, 1),
                                      count_include_pad=True), (IMAGE,)),
    "adaptive_avg_pool2d": (_call(nn.adaptive_avg_pool2d, (1, 1)), (IMAGE,)),
    "mean": (_call(op.mean, [1, 3], keepdims=True), (IMAGE,)),
    **{n: (_call(getattr(op, n), [0, 2]), (IMAGE,)) for n in ("sum", "max", "min", "prod")},
    "sum of all": (_call(op.sum), ((3, 4),)),
    "reshape": (lambda e, r, x: e(op.reshape(x, (N, 30))), ((N, 5, 6),)),
    "expand_dims": (_call(op.expand_dims, [0, 2]), ((N, 5),)),
    "squeeze": (_call(op.squeeze, [1]), ((N, 1, 5),)),
    "permute_dims": (_call(op.permute_dims, [0, 2, 3, 1]), (IMAGE,)),
    "concat": (lambda e, r, x, y: e(op.concat([x, y, const(r, 2, 1)], 1)), ((2, 3), (2, 4))),
    "strided_slice": (_call(op.strided_slice, [1, 3], [0, 5], [3, 0], [1, -2]), (IMAGE,)),
    "pad": (_call(nn.pad, (0, 0, 0, 0, 1, 2, 3, 0), pad_value=0.5), (IMAGE,)),
    "broadcast_to": (_call(op.broadcast_to, (4, 2, 5)), ((2, 1),)),
    "softmax": (_call(nn.softmax, 1), ((N, 5, 4),)),
    "log_softmax": (_call(nn.log_softmax, -1), ((N, 5),)),
    "layer_norm": (_layer_norm, ((N, 5, 6),)),
    "matmul": (_call(op.matmul), ((2, 1, N, 6), (3, 6, 5))),
}  # fmt: skip


def module() -> Any:
    """All cases in one function."""
    rng = np.random.default_rng(0)
    given = [[relax.Var(f"x{k}_{j}", relax.TensorType(s, "float32")) for j, s in enumerate(shapes)]
             for k, (_, shapes) in enumerate(CASES.values())]  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given for v in vs]):
        with bb.dataflow():
            made = [build(bb.emit, rng, *vs)
                    for (build, _), vs in zip(CASES.values(), given, strict=True)]  # fmt: skip
            out = bb.emit_output(relax.Tuple(made))
        bb.emit_func_output(out)
    return bb.get()


def inputs() -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal([e if isinstance(e, int) else 3 for e in s]).astype("float32")
            for _, shapes in CASES.values() for s in shapes]  # fmt: skip


@functools.cache
def compiled() -> CompiledModule:
    return compile_module(module(), ["onnxruntime"], plan=False)


@functools.cache
def results() -> tuple[list[Any], list[Any]]:
    found = compiled().machine()["main"](*map(tvm.runtime.tensor, inputs()))
    return run(module(), inputs()), [t.numpy() for t in found]


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_tvm(name: str) -> None:
    k = list(CASES).index(name)
    expected, found = (side[k] for side in results())
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_every_operator_is_taken_and_every_writer_tried() -> None:
    done = compiled().dispatched
    assert [(o.op, o.why) for o in done.left] == []
    tried = {o for t in done.taken for o in t.ops}
    of_rank = {f"relax.nn.{k}" for k in ("conv{}d", "conv{}d_transpose", "max_pool{}d",
                                         "avg_pool{}d", "adaptive_avg_pool{}d")}  # fmt: skip
    alike = {name.format(rank) for name in of_rank for rank in "123"}
    assert set(WRITE) - tried - alike <= {"relax.flatten"}


def test_a_part_of_a_net_is_one_model_with_several_results() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 4, 4, 3, 3), padding=1))))
        z = emit(op.argmax(y, 1))
        return emit(relax.Tuple([z, y, emit(op.add(y, x)), emit(op.mean(y, [2, 3]))]))

    mod = nets.net(build, IMAGE)
    found = compile_module(mod, ["onnxruntime"])
    assert [len(t.ops) for t in found.dispatched.taken] == [4]
    assert [o.op for o in found.dispatched.left] == ["relax.argmax"]
    x = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    told = found.machine()["main"](tvm.runtime.tensor(x))
    for a, b in zip(run(mod, [x]), told, strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[Build, tuple[Any, ...], str]] = {
    "layout": (_conv(nn.conv2d, 8, 3, 3, 4, data_layout="NHWC", kernel_layout="OHWI"),
               ((1, 6, 6, 4),), "data_layout is NHWC, expected NCHW"),
    "ceil_mode": (_call(nn.max_pool2d, (3, 3), (2, 2), ceil_mode=True), ((1, 4, 6, 6),),
                  "ceil_mode is True, expected False or 0"),
    "axes": (lambda e, r, x: e(nn.layer_norm(x, const(r, 2), const(r, 2), axes=[0])), ((2, 5),),
             "axes is [0], expected the last axes"),
    "dtype": (lambda e, r, x: e(nn.relu(e(op.astype(x, "float16")))), ((2, 5),),
              "the dtype is float16, expected float32"),
    "extents": (_call(op.expand_dims, [0]), ((N, tvm.tirx.Var("m", "int64")),),
                "more than one symbolic extent"),
    "output_size": (_call(nn.adaptive_avg_pool2d, (7, 2)), (IMAGE,),
                    "output_size is [7, 2], expected [1, 1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    left = dispatch(nets.net(build, *shapes), ["onnxruntime"]).left
    assert any(reason in o.why for o in left), left


def test_without_the_library_tvm_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onnxruntime.locate.library", lambda: None)
    mod = nets.net(_call(nn.relu), (2, 3))
    with pytest.warns(UserWarning, match="onnxruntime is not available: libonnxruntime is not"):
        assert not dispatch(mod, ["onnxruntime"]).taken


def test_a_model_that_does_not_load_falls_back_with_a_warning() -> None:
    backend = find("onnxruntime")

    def broken(regions: Any) -> Any:
        code = backend.convert(regions)
        ((name, _),) = code.constants
        return replace(code, constants=((name, np.zeros(8, "uint8")),))

    mod = nets.net(_call(nn.relu), (2, 3), legal=False)
    with pytest.warns(UserWarning, match=r"onnxruntime.*\): its library does not load"):
        found = compile_module(mod, [replace(backend, convert=broken)])
    assert not found.dispatched.taken


def test_a_region_takes_only_the_tensors_that_it_was_made_for() -> None:
    mod = nets.net(_call(nn.relu), (N, 6), legal=False)
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
