"""The made-up accelerator: large regions in float16, a layout of its own, a program a region."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.testing.unoptimised import unoptimised

nn, op = relax.op.nn, relax.op
IMAGE = (1, 4, 9, 9)


def _net(dtype: str = "float16") -> Any:
    """Two branches and a residual sum; exp is in the middle, which the device has not."""
    rng = np.random.default_rng(0)

    def const(*shape: int) -> Any:
        return relax.const((rng.standard_normal(shape) / 4).astype(dtype))

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(IMAGE, dtype))
    with bb.function("main", [x]):
        with bb.dataflow():
            e = bb.emit
            y = e(nn.conv2d(x, const(8, 4, 3, 3), padding=(1, 2, 0, 1), strides=2, dilation=2))
            y = e(nn.relu(e(op.add(y, const(1, 8, 1, 1)))))
            z = e(nn.max_pool2d(y, (3, 2), (2, 1), (1, 0, 1, 1)))
            w = e(nn.conv2d(z, const(8, 8, 1, 1)))
            w = e(op.add(w, e(op.add(z, relax.const(np.float16(0.5).astype(dtype))))))
            gap = e(op.tanh(w))
            out = bb.emit_output(relax.Tuple([e(nn.relu(e(op.add(w, gap)))), y]))
        bb.emit_func_output(out)
    return bb.get()


@functools.cache
def compiled() -> CompiledModule:
    return compile_module(_net(), ["example_npu"])


def _run(machine: Any) -> list[Any]:
    x = np.random.default_rng(1).standard_normal(IMAGE).astype("float16")
    return [t.numpy() for t in machine["main"](tvm.runtime.tensor(x))]


def test_whole_parts_of_a_net_run_on_it() -> None:
    mod, found = _net(), compiled()
    taken = found.dispatched.taken
    assert [len(t.ops) for t in taken] == [7, 2]
    assert [(o.op, o.why) for o in found.dispatched.left if o.op != "relax.permute_dims"] == [
        ("relax.tanh", "no pattern of example_npu has relax.tanh")
    ]
    expected = _run(relax.VirtualMachine(unoptimised(mod), tvm.cpu()))
    for a, b in zip(expected, _run(found.machine()), strict=True):
        np.testing.assert_allclose(b, a, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("dtype", "reason"), [
    ("float16", "example_npu, pattern network: data_layout is NCHW, expected NHWC"),
    ("float32", "example_npu, pattern network: the dtype is float32, expected float16"),
])  # fmt: skip
def test_what_it_does_not_take_it_names(dtype: str, reason: str) -> None:
    left = dispatch(prepare(_net(dtype)), ["example_npu"]).left
    assert reason in [o.why for o in left if o.op == "relax.nn.conv2d"]
