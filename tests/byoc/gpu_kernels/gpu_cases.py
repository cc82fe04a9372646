"""PrimFuncs as they are left to TVM on a GPU, and checks of their kernels.

`tests.common.machine` executes the kernels thread by thread; the oracle is
`tests.common.interpret`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.lifting.tir.node import NodeDict
from opinfo.analysis.proofs.equal import prove_equal
from opinfo.byoc.backends.nvidia.passes.fuse_rows import fuse_rows
from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import RULES, gpu_scheduled
from opinfo.byoc.backends.nvidia.schedules.program.gpu_program import NoGpuSchedule, read_program
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ...common.interpret import interpret
from ...common.machine import execute
from ...common.prim_funcs import prim_funcs

nn, op = relax.op.nn, relax.op
Build = Callable[..., Any]
TARGET = tvm.target.Target(
    {"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024,
     "max_shared_memory_per_block": 49152, "thread_warp_size": 32})  # fmt: skip


def group_norm(emit: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A norm of two groups of channels, which come last."""
    return emit(nn.group_norm(x, weight, bias, num_groups=2, channel_axis=3, axes=[1, 2],
                              epsilon=1e-5))  # fmt: skip


def net(build: Build, *shapes: tuple[Any, ...], dtype: str = "float16") -> Any:
    """A module; a shape may end in the type of its tensor."""
    xs = []
    for k, shape in enumerate(shapes):
        own = isinstance(shape[-1], str)
        kind = shape[-1] if own else dtype
        xs.append(relax.Var(f"x{k}", relax.TensorType(shape[:-1] if own else shape, kind)))
    bb = relax.BlockBuilder()
    with bb.function("main", xs):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, *xs))
        bb.emit_func_output(out)
    return bb.get()


def prim_func(build: Build, *shapes: tuple[Any, ...], **more: Any) -> Any:
    """The only PrimFunc of a module, in the form that is left to TVM."""
    mod = fuse_rows(fuse(prepare(net(build, *shapes, **more))))
    (func,) = prim_funcs(mod)
    return func


def rule_of(func: Any) -> str:
    for name, keep, rule in RULES:
        try:
            rule(read_program(func, keep))
            return name
        except NoGpuSchedule:
            continue
    return "none"


def written_params(func: Any) -> NodeDict[None]:
    """The buffers that a PrimFunc stores to."""
    written = NodeDict[None]()

    def note(stmt: Any) -> None:
        written[stmt.buffer] = None

    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, note))
    return written


def operands(func: Any, sizes: dict[str, int] | None = None) -> list[Any]:
    """Random inputs; ``sizes`` are the values of symbolic sizes."""
    rng, written = np.random.default_rng(0), written_params(func)
    out = []
    for p in func.params:
        if p in written or not is_buffer_var(p):
            continue
        shape = [sizes[e.name] if sizes and isinstance(e, tirx.Var) else int(e) for e in p.ty.shape]
        dtype = str(p.ty.dtype)
        floats = dtype.startswith("float")
        numbers = rng.standard_normal(shape) if floats else rng.integers(0, 9, shape)
        out.append(numbers if floats else numbers.astype(dtype))
    return out


def kernel_of(func: Any) -> Any:
    kernel = gpu_scheduled(func)
    assert kernel, kernel
    return kernel


def check(func: Any, kernel: Any) -> None:
    values = operands(func)
    for got, want in zip(execute(kernel, values), interpret(func, values), strict=True):
        np.testing.assert_allclose(got, want, 1e-6, 1e-9)


def prove(func: Any, kernel: Any) -> None:
    before = lift(func)
    after = lift(kernel, before.params)
    for a, b in zip(before.outputs, after.outputs, strict=True):
        prove_equal(a.body, b.body)


def pool(e: Any, x: Any) -> Any:
    return e(nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1), layout="NHWC"))


def depthwise(e: Any, x: Any, w: Any) -> Any:
    return e(nn.conv2d(x, w, padding=1, groups=16, data_layout="NHWC", kernel_layout="HWOI"))
