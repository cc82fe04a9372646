"""oneDNN: bfloat16 where the CPU has it, next to numpy in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (numpy knows bfloat16)
import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn import cpu
from opinfo.byoc.codegen import host_target
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch

nn, op = relax.op.nn, relax.op
#: oneDNN computes bfloat16 on these CPUs, with or without instructions for it.
ENOUGH = "avx512bw" in host_target.flags()


def _rounded(a: Any) -> Any:
    """float32 values that bfloat16 has."""
    return (a.astype("float32").view("uint32") & 0xFFFF0000).view("float32")


RNG = np.random.default_rng(0)
W, S, B, D = (_rounded(RNG.standard_normal(s)) for s in ((8, 4, 1, 1), (8,), (8,), (8, 5)))
X = _rounded(RNG.standard_normal((2, 4, 5, 6)))


def _const(a: Any) -> Any:
    return relax.const(tvm.runtime.tensor(a.astype("bfloat16")))


def _module() -> Any:
    """A normalised convolution, and a product of matrices, in bfloat16."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(X.shape, "bfloat16"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(nn.conv2d(x, _const(W)))
            y = bb.emit(op.multiply(y, _const(S.reshape(1, 8, 1, 1))))
            y = bb.emit(op.add(y, _const(B.reshape(1, 8, 1, 1))))
            y = bb.emit(nn.relu(y))
            z = bb.emit(op.matmul(bb.emit(op.permute_dims(y, [0, 2, 3, 1])), _const(D)))
            out = bb.emit_output(bb.emit(op.astype(z, "float32")))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.skipif(not ENOUGH, reason="oneDNN computes bfloat16 from AVX512 on")
def test_what_is_computed_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.onednn.patterns.has_bfloat16", lambda: True)
    found = compile_module(_module(), ["onednn"])
    assert [t.pattern for t in found.dispatched.taken] == ["conv", "matmul"]
    given = tvm.runtime.tensor(X.astype("bfloat16"))
    out = found.machine()["main"](given).numpy()
    y = np.einsum("nihw,oi->nhwo", X.astype("float64"), W[:, :, 0, 0]) * S + B
    expected = np.maximum(y, 0) @ D
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-2 * np.abs(expected).max())


@pytest.mark.parametrize(("flags", "has"), [("avx512bw avx512_bf16", True), ("avx512bw", False)])
def test_a_cpu_without_bfloat16_is_reported(
    flags: str, has: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor : 0\nflags\t: fpu {flags}\n")
    monkeypatch.setattr(host_target, "INFO", info)
    monkeypatch.delenv(host_target.VARIABLE, raising=False)
    assert cpu.has_bfloat16.__wrapped__() is has
    monkeypatch.setattr("opinfo.byoc.backends.onednn.patterns.has_bfloat16", lambda: has)
    done = dispatch(relax.transform.LegalizeOps()(_module()), ["onednn"])
    if not has:
        assert not done.taken  # with it, the library answers for the CPU that this runs on
    told = any("bfloat16, which this CPU has no instructions for" in o.why for o in done.left)
    assert told is not has
