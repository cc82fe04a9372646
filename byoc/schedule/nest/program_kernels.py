"""Convert a program to kernels: steps inlined, reductions fused with their epilogues."""

from __future__ import annotations

from dataclasses import replace

from ....analysis.lifting.tir.node import NodeDict
from .epilogues import epilogues, fused_kernel
from .inlined_blocks import inline_blocks
from .kernel import Kernel, Part
from .program import LoopProgram
from .step_kernel import step_kernel, why_plain


def parts(program: LoopProgram, inlined: bool = True) -> list[Part]:
    """Return the kernels of a program, in topological order.

    Unless ``inlined``, each block has its own, so that no value has those of others in it.
    """
    # what keeps its loops keeps its reads
    kept = [b for s in program.steps if why_plain(s) for b, _ in s.reads.items()]
    if not inlined:
        kept += [b for b, _ in program.inner.items()]
    steps, definitions = inline_blocks(program, kept)
    anchors = epilogues(steps, program.inner, definitions)
    fused = {id(r) for r in anchors.values()}
    out: list[Part] = []
    for step in steps:
        if id(step) in fused:
            continue
        anchor = anchors.get(id(step))
        if anchor is None:
            part = step_kernel(step, definitions)
        else:
            part = fused_kernel(anchor, step, definitions, program.sizes)
        if isinstance(part, Kernel):
            part = replace(part, twice=twice(part, program.inner), sizes=program.sizes)
        out.append(part)
    return out


def twice(kernel: Kernel, inner: NodeDict[None]) -> bool:
    """Return whether elements may be computed twice; see `Kernel`."""
    within = any(r.buffer in inner for r in kernel.results)
    return not (within and any(a.buffer in inner for a in (*kernel.reads, *kernel.late)))
