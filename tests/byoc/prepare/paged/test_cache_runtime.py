"""TVM's cache calls the kernels of our own: a prompt and steps of one layer, beside numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

import opinfo
from opinfo.byoc.prepare.paged.attention_kernel import SCHEDULED
from opinfo.byoc.prepare.paged.own_attention import own_attention

from .attention_cases import scaled

library = pytest.importorskip("tvm.relax.frontend.nn.llm.kv_cache")
GROUPS, HEADS, FEATURES = 2, 4, 32
SCALE = FEATURES**-0.5
#: Tokens of the prompt, then one at a time.
CHUNKS = (20, 1, 1, 14, 1)


LLAMA3: dict[str, Any] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip


def cache_module(scaling: dict[str, Any]) -> Any:
    """A module whose only function makes a cache of one layer, with TVM's kernels for CPUs.

    With a scaling, they turn queries and keys.
    """
    mode = library.RopeMode.INLINE if scaling else library.RopeMode.NONE
    builder = relax.BlockBuilder()
    names = ("batch", "tokens", "chunk", "page", "slides")
    sizes = [tirx.Var(n, "int64") for n in names]
    params = [relax.Var(n, relax.ShapeType([v])) for n, v in zip(names, sizes, strict=True)]
    with builder.function("create", params):
        with builder.dataflow():
            cache = library.TIRPagedKVCache(
                "mha", *sizes, relax.ShapeExpr([0, 1]), 1, HEADS, GROUPS, FEATURES, FEATURES, 0, 0,
                mode, 1, 10000, scaling, relax.prim_value(0), FEATURES, False,
                "float32", tvm.target.Target("llvm"))  # fmt: skip
            out = builder.emit_output(cache._expr)
        builder.emit_func_output(out)
    return builder.finalize()


@pytest.mark.parametrize("scaling", [{}, LLAMA3])
def test_a_cache_attends_by_our_kernels(tmp_path: Path, scaling: dict[str, Any]) -> None:
    mod = cache_module(scaling)
    changed = [f for f in own_attention(mod, tvm.target.Target("llvm")).functions.values()
               if not any(f.same_as(old) for old in mod.functions.values())]  # fmt: skip
    assert len(changed) == 7 and all(bool(f.attrs[SCHEDULED]) for f in changed)
    opinfo.compile(mod, ()).export(tmp_path / "cache.so")
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "cache.so")), tvm.cpu())
    cache = machine["create"](*(tvm_ffi.Shape([n]) for n in (1, 128, 64, 16, 0)))
    builtin = {n: tvm.get_global_func(f"vm.builtin.{n}") for n in (
        "kv_state_add_sequence", "kv_state_begin_forward", "kv_state_end_forward",
        "attention_kv_cache_attention_with_fused_qkv")}  # fmt: skip
    builtin["kv_state_add_sequence"](cache, 0)
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((sum(CHUNKS), HEADS + 2 * GROUPS, FEATURES)).astype("float32")
    done = 0
    for count in CHUNKS:
        builtin["kv_state_begin_forward"](cache, tvm_ffi.Shape([0]), tvm_ffi.Shape([count]))
        out = tvm.runtime.tensor(np.zeros((count, HEADS, FEATURES), "float32"))
        new = tvm.runtime.tensor(rows[done : done + count])
        builtin["attention_kv_cache_attention_with_fused_qkv"](cache, 0, SCALE, new, out)
        builtin["kv_state_end_forward"](cache)
        done += count
        expected = causal(rows[:done], scaling)[-count:]
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-4)


def causal(rows: Any, scaling: dict[str, Any]) -> Any:
    """Causal attention of all rows, (rows, heads, features)."""
    wide = rows.astype("float64")
    query, key, value = np.split(wide, (HEADS, HEADS + GROUPS), axis=1)
    key, value = (np.repeat(x, HEADS // GROUPS, axis=1) for x in (key, value))
    if scaling:
        query, key = turned(query, scaling), turned(key, scaling)
    scores = np.einsum("ihd,jhd->hij", query, key) * SCALE
    scores = np.where(np.tri(len(rows), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), value)


def turned(x: Any, scaling: dict[str, Any]) -> Any:
    """Rows with rotary embeddings; the first one has position 0."""
    frequencies, _ = scaled(FEATURES, scaling)
    angle = np.arange(len(x))[:, None, None] * frequencies
    low, high = np.split(x, 2, axis=-1)
    return np.cos(angle) * x + np.sin(angle) * np.concatenate([-high, low], axis=-1)
