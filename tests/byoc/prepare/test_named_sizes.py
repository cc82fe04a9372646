"""PrimFuncs whose sizes are computed from others: what is named, and what is recognised then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.analysis.results.op_info import OpInfo
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.matching.named_sizes import with_named_sizes

from ...common.prim_funcs import prim_funcs

Build = Callable[..., Any]
B, H, W = (tirx.Var(name, "int64") for name in "bhw")
TOKENS = H // 16 * (W // 16) + 1
SIZES = relax.Var("sizes", relax.ShapeType([B, H, W]))


def module(build: Build, *shapes: tuple[Any, ...]) -> Any:
    xs = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", [*xs, SIZES]):
        with builder.dataflow():
            out = builder.emit_output(build(*xs))
        builder.emit_func_output(out)
    return legalise_module(builder.get())


def func_of(mod: Any) -> Any:
    (func,) = prim_funcs(mod)
    return func


def test_a_computed_size_becomes_a_variable() -> None:
    func = func_of(module(lambda x: relax.op.exp(x), (B, TOKENS, 64)))
    named = with_named_sizes(func)
    assert named is not None
    after, sizes = named

    expected = func_of(module(lambda x: relax.op.exp(x), (B, tirx.Var("n", "int64"), 64)))
    tvm.ir.assert_structural_equal(after.body, expected.body, map_free_vars=True)
    ((_, size),) = sizes.items()
    h, w = (next(p for p in func.params if p.name == name) for name in "hw")
    assert tvm.sym.Analyzer().can_prove_equal(size, h // 16 * (w // 16) + 1)


RECOGNISED: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], str]] = {
    "rows merged": (lambda x: relax.op.reshape(x, (B * TOKENS, 64)), ((B, TOKENS, 64),),
                    "relax.reshape"),
    "heads": (lambda x: relax.op.reshape(x, (B, TOKENS, 3, 4, 16)), ((B * TOKENS, 192),),
              "relax.reshape"),
    "a product": (lambda x, w: relax.op.matmul(x, w), ((B * TOKENS, 64), (64, 32)),
                  "relax.matmul"),
    "a softmax": (lambda x: relax.op.nn.softmax(x), ((B, TOKENS, TOKENS),), "relax.nn.softmax"),
    "a concatenation, which needs the sum": (
        lambda x, y: relax.op.concat((x, y), axis=1),
        ((B, 1, 64), (B, H // 16 * (W // 16), 64)), "relax.concat"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOGNISED)
def test_operators_over_computed_sizes_are_recognised(name: str) -> None:
    build, shapes, expected = RECOGNISED[name]
    lowered = read(module(build, *shapes), "test")
    (info,) = [lowered.infos[op].info for op in lowered.ops]
    assert isinstance(info, OpInfo) and info.name == expected
    if "shape" in info.attrs:
        used = {v.name for e in info.attrs["shape"] if isinstance(e, tvm.ir.Expr)
                for v in tirx.analysis.undefined_vars(e)}  # fmt: skip
        assert used <= {"b", "h", "w"}


@pytest.mark.parametrize("shape", [(B, H, 64), (3, 64)])
def test_plain_sizes_stay(shape: tuple[Any, ...]) -> None:
    assert with_named_sizes(func_of(module(lambda x: relax.op.exp(x), shape))) is None
