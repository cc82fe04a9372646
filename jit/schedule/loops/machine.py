"""What a schedule has to know of a CPU: vectors, registers, cores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import codegen

_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class VectorUnits:
    """``registers`` vector registers of ``vector_bits`` each; ``cores`` that may be used, each with
    a second cache of ``cache`` bytes."""

    vector_bits: int
    registers: int
    cores: int = 1
    cache: int = 1 << 20

    def lanes(self, dtype: str) -> int:
        """How many elements a register holds."""
        return max(1, self.vector_bits // bits(dtype))


def bits(dtype: str) -> int:
    """The size of an element."""
    found = _BITS.search(dtype)
    return max(8, int(found[0])) if found else 8


def machine(target: Any) -> VectorUnits | None:
    """The CPU of an LLVM target; None for another kind of target."""
    target = tvm.target.Target(target) if isinstance(target, (str, dict)) else target
    return _cpu(target) if str(target.kind.name) == "llvm" else None


_known: dict[str, VectorUnits] = {}


def _cpu(target: Any) -> VectorUnits:
    """By features: LLVM's own answer is 512 bits for every x86."""
    text = str(target)
    if text not in _known:
        cores = int(target.attrs.get("num-cores", 1) or 1)
        if "aarch64" in str(target.attrs.get("mtriple", "")):
            _known[text] = VectorUnits(128, 32, cores)
        elif codegen.target_has_features("avx512f", target):
            _known[text] = VectorUnits(512, 32, cores)
        else:
            wide = codegen.target_has_features("avx2", target)
            _known[text] = VectorUnits(256 if wide else 128, 16, cores)
    return _known[text]
