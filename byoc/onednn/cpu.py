"""What the CPU of this machine multiplies."""

from __future__ import annotations

import functools
from pathlib import Path

INFO = Path("/proc/cpuinfo")


@functools.cache
def has_bfloat16() -> bool:
    """Whether it has instructions for products of bfloat16."""
    return not flags().isdisjoint(("avx512_bf16", "amx_bf16"))


@functools.cache
def has_int8() -> bool:
    """Whether it has instructions for sums of products of int8 in 32 bits."""
    return not flags().isdisjoint(("avx512_vnni", "avx_vnni", "amx_int8"))


def flags() -> frozenset[str]:
    """What the kernel says that it has."""
    try:
        told = INFO.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    line = next((line for line in told.splitlines() if line.startswith("flags")), "")
    return frozenset(line.split())
