"""TVM's generators of kernels for attention and paged caches, by the sizes of a kernel.

Each takes the module of TVM that has them, `tvm.relax.frontend.nn.llm.kv_cache`, and the sizes. It
fails where TVM has no such kernel, and in other versions of TVM.
"""

from __future__ import annotations

from typing import Any

import tvm

#: The sizes of a kernel: heads of keys, heads of queries, features, dtype, page size; whether
#: lengths say what a sliding window hides, and the window.
Key = tuple[int, int, int, str, int, bool, int]


def decode(library: Any, key: Key) -> Any:
    """Return the kernel for attention of one row a sequence to pages on a GPU."""
    return library._attention_decode(*key[:4], key[5], {}, gpu_target(), **_page(key))


def prefill(library: Any, key: Key) -> Any:
    """Return the kernel for attention of rows to pages on a GPU."""
    window = {"sliding_window_size": key[6]} if key[6] else {}
    return library._attention_prefill(*key[:4], key[5], {}, gpu_target(), **_page(key), **window)


def ragged(library: Any, key: Key) -> Any:
    """Return the kernel for attention of rows to keys side by side on a GPU."""
    groups, heads, features, dtype, *_ = key
    return library._attention_prefill_ragged(
        groups, heads, features, features, dtype, {}, gpu_target()
    )


def decode_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for attention of one row a sequence to pages on a CPU."""
    return library._attention_decode_cpu(*key[:4], key[5], {}, **_page(key))


def prefill_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for attention of rows to pages on a CPU."""
    window = {"sliding_window_size": key[6]} if key[6] else {}
    return library._attention_prefill_cpu(*key[:4], key[5], {}, **_page(key), **window)


def ragged_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for attention of rows to keys side by side on a CPU."""
    groups, heads, features, dtype, *_ = key
    return library._attention_prefill_ragged_cpu(groups, heads, features, features, dtype, {})


def tree(library: Any, key: Key) -> Any:
    """Return the kernel for attention of trees of tokens on a GPU."""
    return library.tree_attn(*key[:4], {}, gpu_target())


def paged_tree(library: Any, key: Key) -> Any:
    """Return the kernel for attention of trees of tokens to pages on a GPU."""
    return library.tree_attn_with_paged_kv_cache(*key[:4], {}, gpu_target())


def tree_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for attention of trees of tokens on a CPU."""
    return library.tree_attn_cpu(*key[:4], {})


def paged_tree_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for attention of trees of tokens to pages on a CPU."""
    return library.tree_attn_with_paged_kv_cache_cpu(*key[:4], {})


def compact(library: Any, key: Key) -> Any:
    """Return the kernel for moving tokens in pages on a GPU."""
    groups, _, features, dtype, *_ = key
    return library._compact_kv_copy(groups, features, dtype, gpu_target(), **_page(key))


def compact_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for moving tokens in pages on a CPU."""
    groups, _, features, dtype, *_ = key
    return library._compact_kv_copy_cpu(groups, features, dtype, **_page(key))


def copy_cpu(library: Any, key: Key) -> Any:
    """Return the kernel for copying a page on a CPU."""
    groups, _, features, dtype, page, *_ = key
    return library._copy_single_page_cpu(groups, page, features, dtype)


def _page(key: Key) -> dict[str, int]:
    return {} if key[4] == 16 else {"page_size": key[4]}


def gpu_target() -> Any:
    """Return a GPU with blocks of up to 1,024 threads; other limits have other kernels."""
    threads = {"max_num_threads": 1024, "max_threads_per_block": 1024, "thread_warp_size": 32}
    memory = {"max_shared_memory_per_block": 49152}
    return tvm.target.Target({"kind": "cuda", "arch": "sm_80", **threads, **memory})
