"""Kernels that TVM generates for language models: rotary embeddings, and a cache of other pages.

A small MLC-LLM module has one rotary embedding and pages of 16 tokens.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.relax.frontend.nn.llm import kv_cache, position_embedding

HEAD_DIM, HEADS, KEYS = 16, 2, 1
#: Scalings of the frequencies, and how many dimensions of a head are rotated.
EMBEDDINGS: dict[str, tuple[dict[str, Any], int]] = {
    "llama 3": ({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64}, HEAD_DIM),
    "interleaved": ({"rope_type": "gptj"}, HEAD_DIM),
    "half of a head": ({}, HEAD_DIM // 2),
}  # fmt: skip


def generated() -> dict[str, Any]:
    """Return a module for each kind of kernel, by what it has that others do not."""
    out = {}
    for name, (scaling, rotated) in EMBEDDINGS.items():
        func = position_embedding.llama_rope_with_position_map(
            10000, 1.0, HEAD_DIM, HEADS, KEYS, "float32", scaling, rotated
        )
        out[name] = tvm.IRModule({"fused_rope": func})
    append = kv_cache._kv_cache_transpose_append(8, 2, "float16", page_size=4)
    out["pages of 4"] = tvm.IRModule({"kv_cache_append": append})
    return out
