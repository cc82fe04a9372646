"""Properties of a CPU that schedules depend on: vectors, registers, cores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import codegen

_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class VectorUnits:
    """A CPU with vector registers, usable cores, and an L2 cache of ``cache`` bytes per core."""

    vector_bits: int
    registers: int
    cores: int = 1
    cache: int = 1 << 20

    def lanes(self, dtype: str) -> int:
        """Return the number of elements in a register."""
        return max(1, self.vector_bits // bits(dtype))


def bits(dtype: str) -> int:
    """Return the size of an element in bits, at least 8."""
    digits = _BITS.search(dtype)
    return max(8, int(digits[0])) if digits else 8


def machine(target: Any) -> VectorUnits | None:
    """Return the CPU of an LLVM target, or None for another kind of target."""
    target = tvm.target.Target(target) if isinstance(target, (str, dict)) else target
    return _cpu(target) if str(target.kind.name) == "llvm" else None


_CPUS: dict[str, VectorUnits] = {}


def _cpu(target: Any) -> VectorUnits:
    """Return the CPU by its features, because LLVM reports 512 bits for every x86 CPU."""
    text = str(target)
    if text not in _CPUS:
        cores = int(target.attrs.get("num-cores", 1) or 1)
        if "aarch64" in str(target.attrs.get("mtriple", "")):
            _CPUS[text] = VectorUnits(128, 32, cores)
        elif codegen.target_has_features("avx512f", target):
            _CPUS[text] = VectorUnits(512, 32, cores)
        else:
            avx2 = codegen.target_has_features("avx2", target)
            _CPUS[text] = VectorUnits(256 if avx2 else 128, 16, cores)
    return _CPUS[text]
