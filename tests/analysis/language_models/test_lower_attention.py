"""Attention over keys whose number is an expression, and attention whose heads are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.testing.unoptimised import unoptimised


def attention(count: Any, biased: bool) -> tvm.IRModule:
    """Attention of one query over a cache with new keys."""
    builder, p = relax.BlockBuilder(), tirx.Var("p", "int64")
    q = relax.Var("q", relax.TensorType([1, 1, 2, 4], "float32"))
    old = relax.Var("old", relax.TensorType([1, p, 2, 4], "float32"))
    new = relax.Var("new", relax.TensorType([1, count, 2, 4], "float32"))
    bias = relax.Var("bias", relax.TensorType([1, 2, 1, p + count], "float32"))
    with builder.function("main", [q, old, new, *([bias] if biased else [])]):
        with builder.dataflow():
            keys = builder.emit(relax.op.concat([old, new], 1))
            read = relax.op.nn.attention(q, keys, keys, bias if biased else None)
            out = builder.emit_output(read)
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("biased", [False, True])
def test_keys_of_a_cache_and_new_ones(biased: bool) -> None:
    machine = relax.VirtualMachine(unoptimised(legalise_module(attention(3, biased))), tvm.cpu())
    rng = np.random.default_rng(0)
    shapes = [(1, 1, 2, 4), (1, 5, 2, 4), (1, 3, 2, 4), (1, 2, 1, 8)][: 4 if biased else 3]
    q, old, new, *bias = (rng.standard_normal(s).astype("float32") for s in shapes)
    keys = np.concatenate([old, new], 1)
    scores = np.einsum("bqhd,bkhd->bhqk", q, keys) / 2 + (bias[0] if biased else 0)
    share = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", share, keys)
    got = machine["main"](*map(tvm.runtime.tensor, [q, old, new, *bias])).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


H, G = (tirx.Var(name, "int64") for name in "hg")


@pytest.mark.part
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("heads", [(6, 2), (6, 1), (H, G), (H, 2)])
def test_heads_that_are_shared(heads: tuple[Any, Any], biased: bool) -> None:
    """TVM's rule read beyond the keys, and gave head h of 6 the keys of h % 2 instead of h // 3."""
    rng = np.random.default_rng(0)
    own, shared = (x if isinstance(x, int) else {"h": 6, "g": 3}[x.name] for x in heads)
    sizes = [(2, 3, own, 4), (2, 5, shared, 4), (2, 5, shared, 4), (2, own, 3, 5)]
    symbolic = [(2, 3, heads[0], 4), *2 * [(2, 5, heads[1], 4)], (2, heads[0], 3, 5)]
    count = 4 if biased else 3
    params = [relax.Var(f"x{k}", relax.TensorType(s, "float32"))
              for k, s in enumerate(symbolic[:count])]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        out = builder.emit(relax.op.nn.attention(*params))
        builder.emit_func_output(out)
    machine = relax.VirtualMachine(unoptimised(legalise_module(builder.get())), tvm.cpu())
    q, k, v, *bias = (rng.standard_normal(s).astype("float32") for s in sizes[:count])
    keys, values = (np.repeat(x, own // shared, axis=2) for x in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, keys) / 2 + (bias[0] if biased else 0)
    share = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", share, values)
    got = machine["main"](*map(tvm.runtime.tensor, [q, k, v, *bias])).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_other_sizes_are_lowered_by_tvm() -> None:
    builder = relax.BlockBuilder()
    q = relax.Var("q", relax.TensorType([1, 3, 2, 4], "float32"))
    with builder.function("main", [q]):
        out = builder.emit(relax.op.nn.attention(q, q, q))
        builder.emit_func_output(out)
    mod = legalise_module(builder.get())
    assert [g.name_hint for g in mod.functions] != []
    assert "attention" in {g.name_hint for g in mod.functions}
