"""The CPU that tests run as: ``OPINFO_MCPU=haswell make test`` is a machine with AVX2 only."""

from __future__ import annotations

import os

from opinfo.byoc.codegen.host import VARIABLE, flags

#: oneDNN's own names of what it may use, the first that the CPU has.
ISA = {"avx512bw": "AVX512_CORE", "avx2": "AVX2", "sse2": "SSE41"}

if os.environ.get(VARIABLE):
    found = next(isa for feature, isa in ISA.items() if feature in flags())
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", found)
