"""Copy strided operands into phases first, so that vectors read them contiguously.

Before: for x, k: out[x] += p[2 * x + k] * w[k]
After:  q[0, x], q[1, x] = p[2 * x], p[2 * x + 1]
        for x, k: out[x] += q[k % 2, x + k // 2] * w[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import detect_linear_equation

from ....analysis.blocks.loop_steps import Axis
from ....analysis.blocks.tir import dtype_of, integer, loads, local, mentions, static, values
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items
from ..nest.kernel import Kernel, KernelOutput, Part
from ..nest.program_kernels import twice
from .axes import choose_vector_axis

#: The largest stride that is split into phases.
MOST = 4


@dataclass(frozen=True)
class _Phases:
    """A buffer whose coordinate ``dim`` is read at ``stride * j + …``, and its phases ``new``."""

    buffer: Any
    dim: int
    stride: int
    new: Any


def unstrided(parts: Sequence[Part], inner: NodeDict[None]) -> list[Part]:
    """Replace strided reads in the parts; add the new buffers to ``inner``."""
    out: list[Part] = []
    for k, part in enumerate(parts):
        strided = _strided_reads(part) if isinstance(part, Kernel) else None
        if strided is None or not isinstance(part, Kernel):
            out.append(part)
            continue
        axis, phases = strided
        for operand in phases:
            inner[operand.new] = None
            producer = producer_of(out, operand.buffer, parts[k + 1 :], inner)
            if producer is not None:
                out.remove(producer)
            out += [replace(c, twice=twice(c, inner), sizes=part.sizes)
                    for c in _copies(operand, producer)]  # fmt: skip
        read = _reading(part, axis, phases)
        out.append(replace(read, twice=twice(read, inner)))
    return out


def _strided_reads(kernel: Kernel) -> tuple[Axis, list[_Phases]] | None:
    """Return the axis to vectorise, and the buffers that are strided along it."""
    if not kernel.reduced or choose_vector_axis(kernel) is not None:
        return None
    for axis in kernel.axes:
        steps = [x.step(axis.var) for x in kernel.reads]
        contiguous = any(x.step(axis.var) == 1 for x in kernel.writes)
        if contiguous and all(s is not None and 0 <= s <= MOST for s in steps):
            candidates = [_phases(e, axis) for e in _loads(kernel) if _moves(e, axis)]
            phases = [p for p in candidates if p is not None]
            if len(phases) == len(candidates) and phases:
                return axis, _unique(phases)
    return None


def _loads(kernel: Kernel) -> list[Any]:
    parts = [a.update for a in kernel.accumulators] + [e for _, e in kernel.before]
    return [e for p in parts for e in loads(p)]


def _moves(expr: Any, axis: Axis) -> bool:
    return any(axis.var in mentions(i) for i in items(expr.indices))


def _phases(expr: Any, axis: Axis) -> _Phases | None:
    """Return the phases of a load that is strided in its last coordinate only."""
    index = items(expr.indices)
    dims = [d for d, i in enumerate(index) if axis.var in mentions(i)]
    last = len(index) - 1
    if dims != [last]:
        return None
    coefs = detect_linear_equation(index[last], [axis.var])
    stride = static(coefs[0]) if len(coefs) else None
    if stride is None or not 1 < stride <= MOST:
        return None
    shape = items(expr.source.ty.shape)
    size = shape[last]
    length = tirx.FloorDiv(size + integer(stride - 1, size), integer(stride, size))
    static_size = static(size)
    if static_size is not None:
        length = integer(-(-static_size // stride), size)
    new = local("phases", [*shape[:last], integer(stride, size), length], str(expr.source.ty.dtype))
    return _Phases(expr.source, last, stride, new)


def _unique(repeated: Sequence[_Phases]) -> list[_Phases]:
    out: list[_Phases] = []
    for phases in repeated:
        if not any(phases.buffer.same_as(q.buffer) for q in out):
            out.append(phases)
    return out


def _reading(kernel: Kernel, axis: Axis, phases: Sequence[_Phases]) -> Kernel:
    """Return the kernel that reads the phases."""

    def load(expr: Any, mutator: Any) -> Any:
        operand = next((p for p in phases if p.buffer.same_as(expr.source)), None)
        if operand is None:
            return mutator.default_mutate(expr)
        index = items(expr.indices)
        size = integer(operand.stride, index[-1])
        place, simplify = as_dtype(axis.var, dtype_of(size)), kernel.analyzer.simplify
        offset = simplify(index[-1] - place * size)
        phase = simplify(tirx.FloorMod(offset, size))
        return tirx.BufferLoad(operand.new, [*index[:-1], phase, place + simplify(offset // size)])

    def put(expr: Any) -> Any:
        return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load)])

    return kernel.with_reads(put)


def producer_of(
    earlier: Sequence[Part], buffer: Any, later: Sequence[Part], inner: NodeDict[None]
) -> Kernel | None:
    """Return the elementwise kernel that writes an inner buffer with no further readers."""
    if buffer not in inner:
        return None
    producers = [k for k in earlier if isinstance(k, Kernel)
              and any(r.buffer.same_as(buffer) for r in k.results)]  # fmt: skip
    others = any(_reads(k, buffer) for k in (*earlier, *later))
    if len(producers) != 1 or others:
        return None
    (kernel,) = producers
    index = kernel.results[0].indices
    axes = [a.var for a in kernel.axes]
    plain = len(index) == len(axes) and all(i.same_as(a) for i, a in zip(index, axes, strict=False))
    return kernel if plain and not kernel.reduced and len(kernel.results) == 1 else None


def _reads(part: Part, buffer: Any) -> bool:
    if isinstance(part, Kernel):
        return any(a.buffer.same_as(buffer) for a in (*part.reads, *part.late))
    return buffer in part.step.reads


def _copies(phases: _Phases, producer: Kernel | None) -> list[Kernel]:
    """Return the kernels that fill the new buffer, one for each phase."""
    return [_copy(phases, producer or identity(phases.buffer), phase)
            for phase in range(phases.stride)]  # fmt: skip


def _copy(phases: _Phases, producer: Kernel, phase: int) -> Kernel:
    *outer, last = producer.axes
    size = integer(last.extent, last.var) if isinstance(last.extent, int) else last.extent
    extent = tirx.FloorDiv(
        size + integer(phases.stride - 1 - phase, size), integer(phases.stride, size)
    )
    axis = Axis(tirx.Var("q", dtype_of(last.var)), producer.analyzer.simplify(extent))
    at = values((last.var, axis.var * integer(phases.stride, axis.var) + integer(phase, axis.var)))
    moved = producer.at(at, (*outer, axis), ())
    index = (*(a.var for a in outer), integer(phase, axis.var), axis.var)
    return replace(moved, results=(KernelOutput(phases.new, index, moved.results[0].value),))


def identity(buffer: Any) -> Kernel:
    """Return a kernel that copies a buffer to itself; callers replace its result."""
    axes = tuple(Axis(tirx.Var("c", dtype_of(e)), e) for e in items(buffer.ty.shape))
    index = tuple(a.var for a in axes)
    result = KernelOutput(buffer, index, tirx.BufferLoad(buffer, list(index)))
    return Kernel(axes, (), (), (), (), (result,))
