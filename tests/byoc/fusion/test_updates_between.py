"""Reads do not move across updates in place, which a dataflow block may contain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.transform import DispatchAttention, FuseDequantize, FuseTransposeMatmul

from ...layout.equal import execute

OP = relax.op
#: Emits the first part, of operands, and returns a function that emits the second part.
Parts = Callable[[Any, list[Any]], Callable[[], Any]]

UPDATE = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def double(x: T.Buffer({shape}, "float32")):
    for i in T.serial({rows}):
        for j in T.serial({columns}):
            x[i, {zeros}j] = x[i, {zeros}j] * T.float32(2)
"""


def _update(shape: tuple[int, ...]) -> Any:
    text = tuple(f"T.int64({e})" for e in shape)
    zeros = "0, " * (len(shape) - 2)
    source = UPDATE.format(
        shape=f"({', '.join(text)})", rows=text[0], columns=text[-1], zeros=zeros
    )
    return tvm.script.from_source(source)


def _module(kinds: list[tuple[tuple[int, ...], str]], parts: Parts, updated: int | None) -> Any:
    """Two parts in one dataflow block, with an update of an operand between them."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{k}", relax.TensorType(*kind)) for k, kind in enumerate(kinds)]
    with builder.function("main", params):
        with builder.dataflow():
            second = parts(lambda x: builder.emit(x), params)
            results = []
            if updated is not None:
                x = params[updated]
                gvar = builder.add_func(_update(kinds[updated][0]), "double")
                call = relax.op.call_tir_inplace(gvar, [x], [0], x.ty)
                results.append(builder.emit_output(builder.emit(call)))
            results.append(builder.emit_output(second()))
        builder.emit_func_output(relax.Tuple(results))
    return relax.transform.LegalizeOps()(builder.get())


def _transposed(emit: Any, params: list[Any]) -> Callable[[], Any]:
    weight = emit(OP.permute_dims(params[1]))
    return lambda: OP.matmul(params[0], weight)


def _dequantized(emit: Any, params: list[Any]) -> Callable[[], Any]:
    weight = emit(group_dequantize(*params[1:], bits=4, group_size=32, axis=0, offset=7.0))
    return lambda: OP.matmul(params[0], weight)


def _attention(emit: Any, params: list[Any]) -> Callable[[], Any]:
    q, k, v = (emit(OP.permute_dims(x, [0, 2, 1, 3])) for x in params)
    scores = emit(OP.matmul(q, emit(OP.permute_dims(k, [0, 1, 3, 2]))))
    scores = emit(OP.multiply(scores, relax.const(0.25)))
    weights = emit(OP.nn.softmax(scores))
    return lambda: OP.permute_dims(emit(OP.matmul(weights, v)), [0, 2, 1, 3])


F, Q = "float32", ((1, 3, 2, 8), "float32")
CASES: dict[str, tuple[Any, Any, Parts, int]] = {
    "transposed": (FuseTransposeMatmul, [((3, 4), F), ((5, 4), F)], _transposed, 1),
    "dequantised": (
        FuseDequantize,
        [((3, 64), F), ((8, 32), "uint32"), ((2, 32), F)],
        _dequantized,
        2,
    ),
    "attention": (DispatchAttention, [Q, Q, Q], _attention, 1),
}


def _values(kinds: list[tuple[tuple[int, ...], str]]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 2**32, shape, "uint32")
        if dtype == "uint32"
        else rng.standard_normal(shape).astype(dtype)
        for shape, dtype in kinds
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_read_stays_before_an_update(case: str) -> None:
    make, kinds, parts, updated = CASES[case]
    mod = _module(kinds, parts, updated)
    expected = execute(mod, _values(kinds))
    got = execute(make()(mod), _values(kinds))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_without_an_update_they_are_fused(case: str) -> None:
    make, kinds, parts, _ = CASES[case]
    mod = _module(kinds, parts, None)
    assert len(make()(mod)["main"].body.blocks[0].bindings) < len(
        mod["main"].body.blocks[0].bindings
    )
