"""NVIDIA's backends without a GPU: what they match, what the generated source says and computes.

The source is compiled against headers that do in plain loops what the libraries' documentation
says, over the host's memory: `benchmarks.nvidia` runs the same graphs with the real ones.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner

from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.attention.halves import halves_kernel
from opinfo.byoc.backends.nvidia.cudnn import cudnn
from opinfo.byoc.backends.nvidia.cudnn.kernels import conv_epilogue, grouped_kernel
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.cli import app

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .nvidia_cases import CASES, inputs, module
from .nvidia_library import host_kernels, stub_options

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")
RUN = ("cublaslt", "cudnn")
#: The module of each backend.
HOMES = {"cublaslt": "products.cublaslt", "cudnn": "cudnn.cudnn", "cutlass": "products.cutlass",
         "tensorrt": "tensorrt"}  # fmt: skip
ALL = [(b, name) for b in RUN for name in CASES[b]]
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def on_stub(name: str) -> Backend:
    """The backend over the stub's headers, with kernels for the host."""
    found = find(name)
    homes: list[Any] = [import_module(f"opinfo.byoc.backends.nvidia.{n}")
                        for n in (HOMES[name], "attention.attention_object")]  # fmt: skip

    def convert(regions: Any) -> Code:
        with pytest.MonkeyPatch.context() as patch:
            for home in homes:
                patch.setattr(home, "options", lambda *_: stub_options())
            patch.setattr(conv_epilogue, "compiled", host_kernels)
            patch.setattr(halves_kernel, "compiled", host_kernels)
            patch.setattr(grouped_kernel, "compiled", host_kernels)
            patch.setattr(grouped_kernel, "image", host_grouped)
            patch.setattr(cudnn, "image", host_image)
            return found.convert(regions)

    return replace(found, available=lambda: None, convert=convert)


host_image = functools.cache(conv_epilogue.image.__wrapped__)
host_grouped = functools.cache(grouped_kernel.image.__wrapped__)


@functools.cache
def compiled(name: str) -> CompiledModule:
    return compile_module(module(CASES[name]), [on_stub(name)], plan=False)


@functools.cache
def results(name: str) -> tuple[list[Any], list[Any]]:
    cases = CASES[name]
    given = [tvm.runtime.tensor(a) for case in inputs(cases) for a in case]
    found = compiled(name).machine()["main"](*given)
    exact = [a for case in inputs(cases, exact=True) for a in case]
    return run(module(cases, exact=True), exact), [t.numpy() for t in found]


@functools.cache
def bodies(name: str) -> dict[str, dict[str, str]]:
    """What the generated source sets, by operators of the region and the results' type."""
    (external,) = compiled(name).dispatched.module.attrs["external_mods"]
    text = external.inspect_source()
    taken = {t.symbol: " ".join(o.rpartition(".")[2] for o in t.ops)
             for t in compiled(name).dispatched.taken}  # fmt: skip
    found: dict[str, dict[str, str]] = {}
    for symbol, body in re.findall(r"(\w+)_make\(const Context& c\) \{\n(.*?)\n\}", text, re.S):
        if symbol in taken:
            found[f"{symbol}: {taken[symbol]}"] = dict(re.findall(r"  [gv]\.(\w+) = (.*);", body))
    return found


@pytest.mark.parametrize(("backend", "name"), ALL)
def test_the_result_is_that_of_the_same_numbers_in_float32(backend: str, name: str) -> None:
    k = list(CASES[backend]).index(name)
    expected, found = (side[k] for side in results(backend))
    apart = np.abs(found.astype("float32") - expected).max() / np.abs(expected).max()
    assert found.shape == expected.shape
    assert apart < TOLERANCE[CASES[backend][name].dtype]


@pytest.mark.parametrize("backend", RUN)
def test_every_case_is_taken_whole(backend: str) -> None:
    assert [(o.op, o.why) for o in compiled(backend).dispatched.left] == []
    taken = Counter(" ".join(o.rpartition(".")[2] for o in t.ops)
                    for t in compiled(backend).dispatched.taken)  # fmt: skip
    assert taken == Counter(c.ops for c in CASES[backend].values())


def _sets(backend: str, **wanted: str) -> int:
    """In how many regions the source sets all of these, and no other ``alpha`` or ``bias``."""
    return sum(all(body.get(k) == v for k, v in wanted.items())
               for body in bodies(backend).values())  # fmt: skip


@pytest.mark.parametrize(("wanted", "times"), [
    ({"strides": "2, 1", "dilation": "1, 2", "padding": "2, 1", "order": "0, 1, 2, 3"}, 1),
    ({"strides": "1, 2", "groups": "2", "order": "0, 3, 1, 2", "last": "true"}, 1),
    ({"groups": "16", "last": "false"}, 1),
    ({"strides": "2", "padding": "1", "order": "0, 1, 2", "transposed": "false"}, 1),
    ({"strides": "2, 3", "padding": "1, 0", "groups": "4", "transposed": "true"}, 1),
    ({"strides": "1, 1, 1", "padding": "0, 1, 1", "order": "0, 1, 2, 3, 4"}, 1),
    ({"activation": "kRelu", "limit": "6.0f"}, 1),
    ({"activation": "kRelu", "limit": "0.5f"}, 1),
    ({"activation": "kHardSwish", "limit": "6.0f"}, 2),
    ({"activation": "kLeakyRelu", "slope": "0.1f"}, 1),
    ({"type": "CUDNN_DATA_HALF", "order": "0, 3, 1, 2"}, 7),
    ({"type": "CUDNN_DATA_BFLOAT16", "activation": "kRelu"}, 2),
])  # fmt: skip
def test_attributes_of_convolutions_arrive(wanted: dict[str, str], times: int) -> None:
    listed = ("strides", "dilation", "padding", "order")
    told = {k: f"{{{v}}}" if k in listed else v for k, v in wanted.items()}
    assert _sets("cudnn", **told) == times


@pytest.mark.parametrize(("wanted", "times"), [
    ({"epilogue": "CUBLASLT_EPILOGUE_GELU_BIAS", "type": "CUDA_R_32F"}, 1),
    ({"epilogue": "CUBLASLT_EPILOGUE_GELU_BIAS", "type": "CUDA_R_16BF"}, 1),
    ({"epilogue": "CUBLASLT_EPILOGUE_GELU", "merge": "true"}, 1),
    ({"epilogue": "CUBLASLT_EPILOGUE_BIAS", "alpha": "0.125f"}, 1),
    ({"epilogue": "CUBLASLT_EPILOGUE_DEFAULT", "alpha": "0.125f", "turned_b": "true"}, 2),
    ({"epilogue": "CUBLASLT_EPILOGUE_RELU_BIAS", "turned_b": "true", "bias": "c.tensor(2)"}, 4),
    ({"type": "CUDA_R_16F", "result": "CUDA_R_32F"}, 2),
    ({"result": "CUDA_R_32F", "type": "CUDA_R_16F", "epilogue": "CUBLASLT_EPILOGUE_RELU_BIAS"}, 1),
    ({"residual": "c.tensor(1)", "epilogue": "CUBLASLT_EPILOGUE_RELU_BIAS"}, 4),
])  # fmt: skip
def test_attributes_of_products_arrive(wanted: dict[str, str], times: int) -> None:
    assert _sets("cublaslt", **wanted) == times


def test_half_precision_tells_where_it_rounds() -> None:
    for backend in RUN:
        halves = Counter(c.dtype for c in CASES[backend].values() if c.dtype != "float32")
        reasons = [t.rounds for t in compiled(backend).dispatched.taken if t.rounds]
        told = Counter(part for reason in reasons for part in reason.split("; "))
        if backend == "cublaslt":
            assert told["products of float16 are added in float32, rounded never to float16"] == 1
            halves["float16"] -= 1
        for dtype, n in halves.items():
            assert told[f"products of {dtype} are added in float32, rounded at the end"] == n


def _odd(emit: Any, rng: Any, x: Any) -> Any:
    return emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=(0, 1, 2, 1)))


def _hwio(emit: Any, rng: Any, x: Any, w: Any) -> Any:
    return emit(nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"))


def _depthwise(emit: Any, rng: Any, x: Any) -> Any:
    x, weights = emit(op.astype(x, "float16")), relax.const(np.ones((3, 3, 16, 1), "float16"))
    return emit(nn.conv2d(x, weights, groups=16, data_layout="NHWC", kernel_layout="HWOI"))


def _dense(emit: Any, rng: Any, x: Any, *after: Callable[[Any], Any]) -> Any:
    y = emit(op.matmul(x, const(rng, 6, 5)))
    for f in after:
        y = emit(f(y))
    return y


REFUSED: dict[str, tuple[str, Callable[..., Any], tuple[tuple[Any, ...], ...], str]] = {
    "padding": ("cudnn", _odd, ((2, 4, 7, 6),), "padding is [0, 1, 2, 1], expected the same"),
    "kernel_layout": ("cudnn", _hwio, ((1, 6, 6, 4), (3, 3, 4, 8)),
                      "kernel_layout of an input is HWIO, expected OHWI"),
    "data_layout": ("cudnn", lambda e, r, x: e(nn.conv2d(
        x, const(r, 3, 3, 4, 8), data_layout="HWNC", kernel_layout="HWIO")), ((6, 6, 1, 4),),
        "expected"),
    "symbolic kernel": ("cudnn", lambda e, r, x, w: e(nn.conv2d(x, w)),
                        ((1, 4, 6, 6), (N, 4, 3, 3)), "the kernel has a symbolic shape"),
    "depthwise of halves": ("cudnn", _depthwise, ((1, 6, 6, 16),), "the convolution is depthwise"),
    "part of a batch": ("cublaslt", lambda e, r, x, y: e(op.matmul(x, y)),
                        ((2, 1, 4, 6), (3, 6, 5)), "is broadcast along a part of the batch"),
    "vector": ("cublaslt", lambda e, r, x, y: e(op.matmul(x, y)), ((6,), (6, 5)),
               "the operands have rank 1 and 2"),
    "gelu by erf": ("cublaslt", lambda e, r, x: _dense(e, r, x, nn.gelu), ((4, 6),),
                    "no pattern of cublaslt has relax.nn.gelu"),
    "bias by row": ("cublaslt", lambda e, r, x: _dense(e, r, x, lambda y: op.add(
        y, const(r, 4, 1))), ((4, 6),), "one value per column, or the result's shape"),
    "symbolic sum": ("cutlass", lambda e, r, x, y: e(op.matmul(x, y)), ((4, N), (N, 5)),
                     "the extent of a row in memory is symbolic"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    backend, build, shapes, reason = REFUSED[name]
    available = replace(find(backend), available=lambda: None, convert=lambda rs: Code(
        "", tuple(r.symbol for r in rs)))  # fmt: skip
    left = dispatch(nets.net(build, *shapes), [available]).left
    assert any(reason in o.why for o in left), left


def _last_without_engine(emit: Any, rng: Any, x: Any) -> Any:
    """Two regions, of which the stub's cuDNN has no engine for the last."""
    y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 8, 4, 3, 3)))))
    return emit(nn.relu(emit(nn.conv2d(y, const(rng, 13, 8, 1, 1)))))


def test_a_region_without_an_engine_goes_to_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.building.build_library.runs_here", lambda _: True)
    mod = nets.net(_last_without_engine, (1, 4, 6, 6), legal=False)
    told = "no kernel for it on this device: .*cudnn_.: no engine of cuDNN .* w,13,8,1,1"
    with pytest.warns(UserWarning, match=told):
        made = compile_module(mod, [on_stub("cudnn")], plan=False)
    assert [t.ops for t in made.dispatched.taken] == [("relax.nn.conv2d", "relax.nn.relu")]
    assert {f.stage for f in made.dispatched.lost} == {"plan"}
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype("float32")
    found = made.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, run(mod, [x])[0], rtol=1e-4, atol=1e-4)


def test_a_region_without_an_engine_raises_where_there_was_no_gpu() -> None:
    mod = nets.net(_last_without_engine, (1, 4, 6, 6), legal=False)
    made = compile_module(mod, [on_stub("cudnn")], plan=False)
    _, taken = made.dispatched.taken
    x = tvm.runtime.tensor(np.zeros((1, 4, 6, 6), "float32"))
    with pytest.raises(RuntimeError, match=f"^{taken.symbol}: no engine of cuDNN .* w,13,8,1,1"):
        made.machine()["main"](x)


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU")
def test_without_a_gpu_the_command_says_so_in_a_line_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "net.json"
    model.write_text(tvm.ir.save_json(nets.net(lambda e, r, x: _dense(e, r, x), (4, 6))))
    words = ["compile", str(model), "-o", str(tmp_path / "y.so")]
    words += ["--backend", "cublaslt,cudnn,cutlass,tensorrt,tvm"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    lines = capfd.readouterr().err.splitlines()
    for name in ("cublaslt", "cudnn", "cutlass", "tensorrt"):
        (line,) = [x for x in lines if f"{name} is not available" in x]
        assert re.search("is not installed|there is no|is visible", line)


def test_a_product_of_float32_is_not_rounded_by_cublaslt() -> None:
    def build(emit: Any, _: Any, x: Any, y: Any) -> Any:
        return emit(relax.op.astype(emit(relax.op.matmul(x, y)), "float16"))

    backends = [on_stub("cublaslt")]
    dispatched = dispatch(prepare(nets.net(build, (8, 16), (16, 32)), backends), backends)
    assert [t.pattern for t in dispatched.taken] == ["matmul"]
    assert [o.op for o in dispatched.left] == ["relax.astype"]
