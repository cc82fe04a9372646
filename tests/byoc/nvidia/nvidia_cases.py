"""Small graphs that NVIDIA's libraries take whole, each as one region: for a CPU and for a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from .cases.case import NUMPY, SIZES, Array, Case, N, constant
from .cases.convolutions import CONVOLUTIONS, IMAGE, chain, conv
from .cases.products import PRODUCTS, bias, dense

nn, op = relax.op.nn, relax.op
#: What CUTLASS takes of them, and what only it takes.
BY_TEMPLATES: dict[str, Case] = {
    **{name: replace(PRODUCTS[name], backend="cutlass") for name in (
        "matmul", "odd extents", "batch", "batch, one b", "rows at run time", "bias, relu",
        "scaled, bias", "linear", "float16", "float16 linear")},
    "bias, gelu": dense(bias, lambda y, c: nn.gelu(y), ops="add gelu", backend="cutlass"),
    "float16 silu": dense(bias, lambda y, c: nn.silu(y), ops="add silu", dtype="float16",
                          backend="cutlass"),
    "float16 residual": Case("cutlass", ((16, 24), (16, 32)), lambda e, c, x, z: e(nn.relu(e(
        op.add(z, e(op.matmul(x, c(24, 32))))))), "matmul add relu", "float16"),
    "bfloat16 sigmoid": dense(bias, lambda y, c: op.sigmoid(y), ops="add sigmoid",
                              dtype="bfloat16", shape=(3, N, 24), backend="cutlass"),
}  # fmt: skip
#: Network definitions for TensorRT.
NETWORKS: dict[str, Case] = {
    **{name: replace(PRODUCTS[name], backend="tensorrt") for name in (
        "matmul", "batch, one b", "bias, relu", "bias, gelu by tanh", "float16", "scaled, bias")},
    **{name: replace(CONVOLUTIONS[name], backend="tensorrt") for name in (
        "strided, dilated", "grouped", "conv3d", "normalised", "bias, relu6", "bias, clip", "silu",
        "residual", "float16")},
    "padded on one side": replace(conv(IMAGE, (24, 16, 3, 3), padding=(0, 1, 2, 1)),
                                  backend="tensorrt"),
    "from a literal": replace(chain(lambda y, c: op.subtract(relax.const(1.0), y), lambda y, c:
                                    op.exp(y), ops="subtract exp"), backend="tensorrt"),
    "leakyrelu": replace(chain(lambda y, c: nn.leakyrelu(y, 0.1), ops="leakyrelu"),
                         backend="tensorrt"),
    "max_pool": Case("tensorrt", (IMAGE,), lambda e, c, x: e(nn.max_pool2d(
        x, (3, 2), (2, 2), (1, 0, 1, 1))), "max_pool2d"),
    "avg_pool with padding": Case("tensorrt", (IMAGE,), lambda e, c, x: e(nn.avg_pool2d(
        x, (3, 3), (2, 2), (1, 1, 1, 1), count_include_pad=True)), "avg_pool2d"),
    "softmax": Case("tensorrt", ((2, 5, 4),), lambda e, c, x: e(nn.softmax(x, 1)), "softmax"),
}  # fmt: skip
CASES = {"cublaslt": PRODUCTS, "cudnn": CONVOLUTIONS, "cutlass": BY_TEMPLATES,
         "tensorrt": NETWORKS}  # fmt: skip


def module(cases: dict[str, Case], exact: bool = False) -> Any:
    """All cases in one function: an input for each shape, a tuple of the results.

    ``exact``: the same numbers, computed in float32.
    """
    rng = np.random.default_rng(0)
    types = {name: "float32" if exact else c.dtype for name, c in cases.items()}
    given = {name: [relax.Var(f"x{k}_{j}", relax.TensorType(s, types[name]))
                    for j, s in enumerate(c.shapes)]
             for k, (name, c) in enumerate(cases.items())}  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given.values() for v in vs]):
        with bb.dataflow():
            made = [c.build(bb.emit, constant(rng, types[name], c.dtype), *given[name])
                    for name, c in cases.items()]  # fmt: skip
            out = bb.emit_output(relax.Tuple(made))
        bb.emit_func_output(out)
    return bb.get()


def inputs(cases: dict[str, Case], exact: bool = False) -> list[list[Array]]:
    """For each case."""
    rng = np.random.default_rng(1)
    out = []
    for c in cases.values():
        sized = [[e if isinstance(e, int) else SIZES[e.name] for e in s] for s in c.shapes]
        arrays = [rng.standard_normal(s).astype(NUMPY[c.dtype]) for s in sized]
        out.append([a.astype("float32") for a in arrays] if exact else arrays)
    return out
