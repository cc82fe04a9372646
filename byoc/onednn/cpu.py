"""What the CPU of this machine multiplies."""

from __future__ import annotations

import functools
from pathlib import Path

INFO = Path("/proc/cpuinfo")


@functools.cache
def has_bfloat16() -> bool:
    """Whether it has instructions for products of bfloat16."""
    try:
        told = INFO.read_text(encoding="utf-8")
    except OSError:
        return False
    flags = next((line for line in told.splitlines() if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags
