"""oneDNN: what it refuses and why, a library that is missing, a process that only loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from typer.testing import CliRunner

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.onednn.locate import library
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.cli import app

from ...common.run import run
from ...layout import nets
from ...layout.nets import const

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")


def _normalised(emit: Any, rng: Any, x: Any) -> Any:
    """conv, batch_norm, a sum of two as ONNX imports it, relu."""
    y = emit(nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))
    variance = relax.const(rng.uniform(0.5, 2, 8).astype("float32"))
    statistics = [const(rng, 8), const(rng, 8), const(rng, 8), variance]
    z = emit(emit(nn.batch_norm(y, *statistics, axis=1, training=False))[0])
    z = emit(op.sum(emit(op.stack([emit(op.astype(z, "float32")), y], 0)), [0]))
    return emit(nn.relu(z))


@pytest.mark.parametrize("legal", [False, True])
def test_preparation_keeps_the_result(legal: bool) -> None:
    mod = nets.net(_normalised, (2, 3, 6, 6), legal=legal)
    text = mod.script()
    ready = prepare(mod)
    assert mod.script() == text
    done = dispatch(ready, ["onednn"])
    found = sorted(tuple(o.rpartition(".")[2] for o in t.ops) for t in done.taken)
    assert found == [("conv2d",), ("multiply", "add", "add", "relu")]  # two read the convolution
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype("float32")
    np.testing.assert_allclose(run(ready, [x])[0], run(mod, [x])[0], rtol=1e-4, atol=1e-5)


def _odd(emit: Any, rng: Any, x: Any) -> Any:
    """Each would be another function if it were merged, folded or handed over."""
    y = emit(nn.conv2d(x, const(rng, 4, 3, 1, 1)))
    m = relax.const(np.float32(12582912))
    by = relax.const(np.array([1, 0, 2, 3], "float32").reshape(1, 4, 1, 1))
    large = relax.const(np.full((1, 4, 1, 1), 1e30, "float32"))
    several = [
        emit(op.subtract(emit(op.add(emit(nn.conv2d(x, const(rng, 4, 3, 1, 1))), m)), m)),
        emit(op.divide(emit(nn.conv2d(x, const(rng, 4, 3, 1, 1))), by)),
        emit(op.multiply(emit(op.multiply(emit(nn.conv2d(x, const(rng, 4, 3, 1, 1))), large)),
                         large)),
        emit(op.clip(emit(nn.conv2d(x, const(rng, 4, 3, 1, 1))), 2, -1)),
        emit(nn.softplus(emit(nn.conv2d(x, const(rng, 4, 3, 1, 1))), 1.0, 0.25)),
        emit(nn.relu(y)),
    ]  # fmt: skip
    return relax.Tuple(several)


def test_what_rounds_or_overflows_on_purpose_does_so() -> None:
    mod = nets.net(_odd, (1, 3, 5, 5), legal=False)
    made = compile_module(mod, ["onednn"])
    assert {o.op: o.why for o in made.dispatched.left} == {
        "relax.clip": "onednn, pattern conv: after relax.nn.conv2d, clip is from 2.0 to -1.0, "
                      "expected min <= max",
        "relax.nn.softplus": "onednn, pattern conv: after relax.nn.conv2d, softplus is supported "
                             "with beta 1 and a threshold of at least 17",
    }  # fmt: skip
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 5)).astype("float32")
    found = made.machine()["main"](tvm.runtime.tensor(x))
    for one, expected in zip(found, run(mod, [x]), strict=True):
        np.testing.assert_allclose(one.numpy(), expected, rtol=2e-4, atol=2e-5)


def _half(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.astype(x, "float16"))
    return emit(op.matmul(y, emit(op.astype(const(rng, 6, 5), "float16"))))


REFUSED: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...], str]] = {
    "dtype": (_half, ((4, 6),), "the dtype is float16, expected float32"),
    "vector": (lambda e, r, x, y: e(op.matmul(x, y)), ((6,), (6, 5)),
               "the operands have rank 1 and 2, expected at least 2"),
    "kernel": (lambda e, r, x, w: e(nn.conv2d(x, w)), ((1, 4, 6, 6), (N, 4, 3, 3)),
               "the kernel has a symbolic shape, expected a static shape"),
    "pixels": (lambda e, r, x: e(nn.max_pool2d(x, (2, 2))), ((1, 4, N, 6),), "are symbolic"),
    "no number": (lambda e, r, x: e(op.multiply(e(nn.relu(x)), relax.const(float("nan")))),
                  ((2, 4),), "relax.multiply has the literal nan"),
    "axes": (lambda e, r, x: e(nn.layer_norm(x, const(r, 4, 6), const(r, 4, 6), axes=[-2, -1])),
             ((3, 4, 6),), "axes is [1, 2], expected the last axis"),
    "mean": (lambda e, r, x: e(op.mean(x, [1])), ((2, 3, 4, 5),),
             "axis is [1] of rank 4, expected all but two axes of rank 3 to 5"),
    "mean of what is not known": (lambda e, r, x: e(op.mean(x, [2, 3])), ((2, 3, N, 5),),
                                  "the extents of the axes are symbolic"),
    "no axes": (lambda e, r, x, y: e(op.maximum(x, y)), ((), ()),
                "the result has no axes, expected at least one"),
    "output_size": (lambda e, r, x: e(nn.adaptive_avg_pool2d(x, (2, 2))), ((1, 4, 7, 7),),
                    "output_size is [2, 2], expected a single element"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    left = dispatch(nets.net(build, *shapes), ["onednn"]).left
    assert any(reason in o.why for o in left), left


def test_a_product_of_sums_without_terms() -> None:
    """A primitive that has nothing to add up leaves its result unwritten."""

    bias = np.array([2, -1], "float32")

    def build(emit: Any, rng: Any, x: Any, y: Any) -> Any:
        return emit(nn.relu(emit(op.add(emit(op.matmul(x, y)), relax.const(bias)))))

    made = compile_module(nets.net(build, (3, N), (N, 2), legal=False), ["onednn"])
    assert [t.ops[0] for t in made.dispatched.taken] == ["relax.matmul"]
    for count in (0, 5):
        xs = [np.full(s, 0.5, "float32") for s in ((3, count), (count, 2))]
        got = made.machine()["main"](*map(tvm.runtime.tensor, xs)).numpy()
        expected = np.broadcast_to(np.maximum(0.25 * count + bias, 0), (3, 2))
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_an_operand_along_several_axes_ends_the_chain() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=1))
        return emit(op.add(y, const(rng, 8, 6, 1)))

    done = dispatch(nets.net(build, (2, 4, 6, 6)), ["onednn"])
    assert [t.ops for t in done.taken] == [("relax.nn.conv2d",)]


def test_without_the_library_tvm_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onednn.locate.library", lambda: None)
    mod = nets.net(lambda e, r, x: e(nn.relu(x)), (2, 3), legal=False)
    with pytest.warns(UserWarning, match="onednn is not available: libdnnl is not installed"):
        found = compile_module(mod, ["onednn"])
    assert not found.dispatched.taken
    x = np.asarray([[-1, 2, -3], [4, -5, 6]], "float32")
    out = found.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(out, np.maximum(x, 0))


def test_code_that_does_not_build_falls_back_with_a_warning() -> None:
    onednn = find("onednn")

    def broken(regions: Any) -> Any:
        return replace(onednn.convert(regions), source="no C++ at all")

    mod = nets.net(lambda e, r, x: e(nn.relu(x)), (2, 3), legal=False)
    with pytest.warns(UserWarning, match=r"onednn.*relu\): its code does not compile: error: "):
        found = compile_module(mod, [replace(onednn, convert=broken)])
    assert not found.dispatched.taken


LOADED = """
import sys
sys.modules["torch"] = None  # TVM would import it
import numpy as np, tvm
from tvm import relax
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
np.save(sys.argv[3], machine["main"](tvm.runtime.tensor(np.load(sys.argv[2]))).numpy())
assert not any(m.startswith("opinfo") for m in sys.modules)
"""


def test_the_command_writes_a_library_that_a_fresh_process_runs(tmp_path: Path) -> None:
    mod = nets.net(_normalised, (2, 3, 6, 6), legal=False)
    model, made = tmp_path / "net.json", tmp_path / "net.so"
    model.write_text(tvm.ir.save_json(mod))
    words = ["compile", str(model), "-o", str(made), "--backend", "onednn,tvm", "--verify"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    _, first, *_, last = told.stdout.strip().splitlines()
    assert "100.0% of FLOPs, onednn" in first and last.startswith("outputs differ by")
    assert library() is not None
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    files = [str(tmp_path / n) for n in ("net.so", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", LOADED, *files], check=True)
    found = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(found, run(mod, [x])[0], rtol=1e-4, atol=1e-5)


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    model = tmp_path / "net.json"
    model.write_text(tvm.ir.save_json(nets.net(lambda e, r, x: e(nn.relu(x)), (2, 3))))
    words = ["compile", str(model), "-o", str(tmp_path / "y.so"), "--backend", "fpga"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 2
    assert not (tmp_path / "y.so").exists()
