"""The target of builds for a GPU that need none."""

from __future__ import annotations

from typing import Any


def cuda_target(arch: str) -> Any:
    """Return the target of GPUs of an architecture, such as ``sm_90``."""
    import tvm

    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    return tvm.target.Target({"kind": "cuda", "arch": arch, "thread_warp_size": 32, **limits})
