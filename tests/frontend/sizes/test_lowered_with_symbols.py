"""Operators that TVM does not lower with symbolic sizes compute what numpy does, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

import opinfo
from opinfo.analysis.support.origin import span
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION

from .size_modules import Build, K, N, module

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

op, nn = relax.op, relax.op.nn


def _shuffled(x: Any) -> Any:
    """Move each four channels into blocks of 2 by 2 pixels."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // 4, 2 * h, 2 * w)


def _kinked(x: Any, slope: Any) -> Any:
    return np.where(x > 0, x, x * slope[:, None])


RUNS: dict[str, tuple[Build, tuple[Any, ...], Callable[..., Any], list[tuple[int, ...]]]] = {
    "pixels": (lambda x: nn.pixel_shuffle(x, 2), ((N, 8, K, 3),), _shuffled, [(2, 8, 4, 3)]),
    "static pixels": (lambda x: nn.pixel_shuffle(x, 2), ((1, 4, 2, 3),), _shuffled, [(1, 4, 2, 3)]),
    "a product and a sum": (lambda x, y, z: op.ewise_fma(x, y, z), ((N, K),) * 3,
                            lambda x, y, z: x * y + z, [(2, 3)] * 3),
    "slopes": (lambda x, s: nn.prelu(x, s, 1), ((2, N, 4), (N,)), _kinked, [(2, 3, 4), (3,)]),
    "slopes of another size": (lambda x, s: nn.prelu(x, s, 1), ((2, N, 4), (K,)), _kinked,
                               [(2, 3, 4), (3,)]),
    "one slope": (lambda x, s: nn.prelu(x, s, 1), ((2, N, 4), (1,)), _kinked, [(2, 3, 4), (1,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_results(name: str) -> None:
    build, types, oracle, shapes = RUNS[name]
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    compiled = opinfo.compile(module(build, *types), [])
    np.testing.assert_allclose(compiled.run(*args), oracle(*args), 1e-6)


def test_fewer_slopes_than_channels_are_refused() -> None:
    compiled = opinfo.compile(module(lambda x, s: nn.prelu(x, s, 1), (2, N, 4), (K,)), [])
    with pytest.raises(ValueError, match="only defined for"):
        compiled.run(np.ones((2, 3, 4), "float32"), np.ones(2, "float32"))


def test_what_tvm_cannot_build_names_its_node() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, N, K), "float32"))
    with builder.function("main", [x]):
        resized = builder.normalize(op.image.resize2d(
            x, relax.ShapeExpr([2 * N, 2 * K]), layout="NCHW", method="cubic",
            coordinate_transformation_mode="align_corners"))  # fmt: skip
        out = relax.Var("out", resized.ty, span("upsample"))
        builder.emit_normalized(relax.VarBinding(out, resized))
        builder.emit_func_output(out)
    with pytest.raises(
        ValueError, match=r"^upsample: TVM cannot build [^\n]*make its sizes static"
    ):
        opinfo.compile(builder.get(), [])
