"""Kernels: what one loop nest computes, independent of the loop order.

For every point of ``axes``, the accumulators start at ``init`` and apply ``update`` over
``reduced``; then ``results`` are computed from them and stored.

    matmul + bias + relu:  axes (i, j), reduced (k), one accumulator
        init 0, update acc + x[i, k] * w[k, j];  out[i, j] = max(acc + b[j], 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ....analysis.blocks.definitions import BlockDefinition
from ....analysis.lifting.tir.node import NodeDict, as_dtype, items, substitute
from ....analysis.terms.flat import volume
from ....layout.access.copies import copies
from ...dims.symbolic_dims import variables
from .inlined_blocks import Expander, Let, virtual
from .program import Axis, LoopProgram, LoopStep, Update
from .strided_access import StridedAccess, access, analyzer_of
from .symbolic_sizes import UNSAID, Bounds, SymbolicSizes
from .tir import Values, integer, is_guard, loads, static, values


@dataclass(frozen=True)
class Accumulator:
    """A value that a reduction updates; ``var`` stands for it in ``update`` and in results."""

    var: Any
    dtype: str
    init: Any
    update: Any


@dataclass(frozen=True)
class KernelOutput:
    """``buffer[indices] = value``."""

    buffer: Any
    indices: tuple[Any, ...]
    value: Any


@dataclass(frozen=True)
class Kernel:
    """The computation of a loop nest.

    ``before`` is bound at every point of the reduction, ``after`` before the stores. ``twice`` says
    whether elements may be computed twice; they must not if TVM may let an inner result reuse the
    memory of an operand. ``sizes`` bounds symbolic extents.
    """

    axes: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    accumulators: tuple[Accumulator, ...]
    before: tuple[Let, ...]
    after: tuple[Let, ...]
    results: tuple[KernelOutput, ...]
    name: str = ""
    twice: bool = True
    copy: bool = False
    sizes: SymbolicSizes = UNSAID

    def bounds(self, axis: Axis) -> Bounds:
        """Return the bounds of an axis's extent."""
        return self.sizes.of(axis.extent)

    @property
    def all_axes(self) -> tuple[Axis, ...]:
        return self.axes + self.reduced

    @cached_property
    def analyzer(self) -> Any:
        return analyzer_of(self.all_axes, self.sizes)

    @cached_property
    def reads(self) -> tuple[StridedAccess, ...]:
        """Accesses at every point of the reduction."""
        return self._accesses([a.update for a in self.accumulators] + [e for _, e in self.before])

    @cached_property
    def late(self) -> tuple[StridedAccess, ...]:
        """Accesses of the stored values."""
        return self._accesses([r.value for r in self.results] + [e for _, e in self.after])

    @cached_property
    def writes(self) -> tuple[StridedAccess, ...]:
        axes = [a.var for a in self.all_axes]
        return tuple(access(r.buffer, r.indices, axes, self.analyzer) for r in self.results)

    def _accesses(self, parts: Sequence[Any]) -> tuple[StridedAccess, ...]:
        axes = [a.var for a in self.all_axes]
        return tuple(access(e.source, items(e.indices), axes, self.analyzer)
                     for p in parts for e in loads(p))  # fmt: skip

    @cached_property
    def spoken(self) -> NodeDict[None]:
        """The axes that occur outside the indices of loads and stores."""
        found: NodeDict[None] = NodeDict()
        parts = [a.update for a in self.accumulators] + [e for _, e in (*self.before, *self.after)]
        rules = [(tvm.ir.TensorLoad, lambda expr, visitor: None),
                 (tvm.ir.Var, lambda v, visitor: _note(found, v))]  # fmt: skip
        for param in [*parts, *(r.value for r in self.results)]:
            tvm_ffi.structural_visit(param, rules)
        return found

    def at(self, where: Values, axes: tuple[Axis, ...], reduced: tuple[Axis, ...]) -> Kernel:
        """Return the kernel over new axes; ``where`` maps old axes to their values."""

        def put(expr: Any) -> Any:
            return substitute(expr, where)

        return replace(
            self,
            axes=axes,
            reduced=reduced,
            accumulators=tuple(
                replace(accumulator, init=put(accumulator.init), update=put(accumulator.update))
                for accumulator in self.accumulators
            ),
            before=tuple((v, put(e)) for v, e in self.before),
            after=tuple((v, put(e)) for v, e in self.after),
            results=tuple(
                KernelOutput(output.buffer, tuple(map(put, output.indices)), put(output.value))
                for output in self.results
            ),
        )


def _note(found: NodeDict[None], v: Any) -> None:
    found[v] = None


@dataclass(frozen=True)
class Plain:
    """A step that keeps its original loops, and why."""

    step: LoopStep
    reason: str


Part = Kernel | Plain


def parts(made: LoopProgram) -> list[Part]:
    """Return the kernels of a program, in topological order."""
    left, found = virtual(made)
    into = _epilogues(left, made.inner, found)
    gone = {id(r) for r in into.values()}
    out: list[Part] = []
    for step in left:
        if id(step) in gone:
            continue
        anchor = into.get(id(step))
        part = _part(step, found) if anchor is None else _merged(anchor, step, found, made.sizes)
        if isinstance(part, Kernel):
            part = replace(part, twice=twice(part, made.inner), sizes=made.sizes)
        out.append(part)
    return out


def twice(kernel: Kernel, inner: NodeDict[None]) -> bool:
    """Return whether elements may be computed twice; see `Kernel`."""
    within = any(r.buffer in inner for r in kernel.results)
    return not (within and any(a.buffer in inner for a in (*kernel.reads, *kernel.late)))


def _epilogues(
    left: Sequence[LoopStep], inner: NodeDict[None], found: NodeDict[BlockDefinition]
) -> dict[int, LoopStep]:
    """Map spatial steps to the reductions, read by nothing else, that they are fused with."""
    out: dict[int, LoopStep] = {}
    taken: dict[int, LoopStep] = {}
    readers: NodeDict[list[LoopStep]] = NodeDict()
    for s in left:
        for b, _ in _real_reads(s, found).items():
            readers[b] = [*(readers.get(b) or ()), s]
    for r in left:
        others = {id(s): s for b in r.writes for s in readers.get(b) or () if s is not r}
        if not r.reduced or not all(b in inner for b in r.writes) or len(others) != 1:
            continue
        (e,) = others.values()
        if id(e) not in taken and _joins(r, e, found):
            out[id(e)] = r
            taken[id(e)] = r
    return out


def _real_reads(step: LoopStep, found: NodeDict[BlockDefinition]) -> NodeDict[None]:
    """Return the buffers that a step reads after inlining."""
    seen: NodeDict[None] = NodeDict()

    def visit(b: Any) -> None:
        if b in seen:
            return
        seen[b] = None
        made = found.get(b)
        if made is not None:
            for expr in loads(made.value):
                visit(expr.source)

    for b, _ in step.reads.items():
        visit(b)
    return seen


def _joins(r: LoopStep, e: LoopStep, found: NodeDict[BlockDefinition]) -> bool:
    """Return whether a step reads each element of a reduction once, at a single index."""
    if e.reduced or not e.updates or not _direct(r) or isinstance(_part(r, found), Plain):
        return False
    if isinstance(_part(e, found), Plain):
        return False
    if volume(r.stage.writes[0].shape) is not volume(e.stage.writes[0].shape):
        return False
    return len(_places(r, e, found)) == 1


def _direct(step: LoopStep) -> bool:
    """Return whether the results of a reduction are indexed by its spatial axes, one each."""
    if not step.updates or any(not _same(u.indices, step.updates[0].indices) for u in step.updates):
        return False
    axes = [a.var for a in step.spatial]
    used = [i for i in step.updates[0].indices if static(i) != 0]
    return all(sum(i.same_as(a) for a in axes) == 1 for i in used) and all(
        sum(i.same_as(a) for i in used) == 1 or static(extent.extent) == 1
        for a, extent in zip(axes, step.spatial, strict=True)
    )


def _places(
    r: LoopStep, e: LoopStep, found: NodeDict[BlockDefinition]
) -> list[tuple[Any, ...] | None]:
    """Return the indices at which a step reads a reduction; None for a guarded read."""
    expand = Expander(found)
    texts = [expand(u.value) for u in e.updates] + [x for _, x in expand.lets]
    places: list[tuple[Any, ...] | None] = []

    def load(x: Any, visitor: Any) -> None:
        index = tuple(items(x.indices))
        if not any(x.source.same_as(b) for b in r.writes):
            visitor.default_visit(x)
        elif not any(p is not None and _same(index, p) for p in places):
            places.append(index)

    def guard(x: Any, visitor: Any) -> None:
        if isinstance(x, tvm.ir.Call) and not is_guard(x):
            visitor.default_visit(x)
        elif any(y.source.same_as(b) for y in loads(x) for b in r.writes):
            places.extend((None, None))

    rules = [(tvm.ir.TensorLoad, load), (tvm.ir.Call, guard), (tirx.Select, guard)]
    for t in texts:
        tvm_ffi.structural_visit(t, rules)
    return places


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(tvm_ffi.structural_equal, a, b))


def _coupled(updates: Sequence[Update]) -> bool:
    """Return whether an update reads the buffer of another, as in an argmax."""
    for update in updates:
        for expr in loads(update.value):
            if any(expr.source.same_as(o.buffer) for o in updates if o is not update):
                return True
    return False


def _part(step: LoopStep, found: NodeDict[BlockDefinition]) -> Part:
    """Convert a step to a kernel."""
    if not step.updates:
        return Plain(step, "its body does more than update elements")
    if _coupled(step.updates):
        return Plain(step, "its results depend on one another")
    if not step.reduced:
        return _spatial(step, found)
    own = {u.buffer.__chandle__(): u for u in step.updates}
    if any(u.init is None for u in step.updates):
        return Plain(step, "a reduction has no initial value")
    used = [v for u in step.updates for e in (*u.indices, u.init) for v in variables(e)]
    if any(v.same_as(axis.var) for v in used for axis in step.reduced):
        return Plain(step, "a reduction stores at an index with a reduced axis")
    if any(not _at_store(e, own) for u in step.updates for e in loads(u.value)):
        return Plain(step, "a reduction reads other elements of its result")
    accumulators, before = _reduction(step, found)
    results = tuple(KernelOutput(u.buffer, u.indices, a.var)
                    for u, a in zip(step.updates, accumulators, strict=True))  # fmt: skip
    return Kernel(step.spatial, step.reduced, accumulators, before, (), results,
                  step.stage.block.name_hint)  # fmt: skip


def _at_store(expr: Any, own: dict[int, Update]) -> bool:
    update = own.get(expr.source.__chandle__())
    return update is None or _same(items(expr.indices), update.indices)


def _spatial(step: LoopStep, found: NodeDict[BlockDefinition]) -> Part:
    if any(e.source.same_as(b) for b in step.writes for u in step.updates for e in loads(u.value)):
        return Plain(step, "it reads what it writes")
    expand = Expander(found)
    results = tuple(KernelOutput(u.buffer, u.indices, expand(u.value)) for u in step.updates)
    made = Kernel(step.axes, (), (), (), tuple(expand.lets), results, step.stage.block.name_hint)
    same = copies(step.stage) and loads(step.updates[0].value)[0].source not in found
    return replace(made, copy=same)


def _reduction(
    step: LoopStep, found: NodeDict[BlockDefinition]
) -> tuple[tuple[Accumulator, ...], tuple[Let, ...]]:
    """Return the accumulators of a reduction, and the bindings that they need."""
    expand = Expander(found)
    held: NodeDict[Any] = NodeDict()
    for update in step.updates:
        held[update.buffer] = tirx.Var("acc", str(update.buffer.ty.dtype))
    made = []
    for update in step.updates:
        value = expand(loaded(update.value, held))
        assert update.init is not None
        made.append(
            Accumulator(held[update.buffer], str(update.buffer.ty.dtype), update.init, value)
        )
    return tuple(made), tuple(expand.lets)


def loaded(expr: Any, held: NodeDict[Any]) -> Any:
    """Replace the loads of some buffers in an expression by variables."""

    def load(x: Any, mutator: Any) -> Any:
        v = held.get(x.source)
        return mutator.default_mutate(x) if v is None else v

    return tvm_ffi.structural_mutate(expr, [(tvm.ir.TensorLoad, load)])


def _merged(
    r: LoopStep, e: LoopStep, found: NodeDict[BlockDefinition], sizes: SymbolicSizes
) -> Part:
    """Fuse a reduction and the step that reads it, over the axes of the latter."""
    whole = _part(r, found)
    if isinstance(whole, Plain):  # excluded by _joins
        raise AssertionError(whole.reason)
    (place,) = _places(r, e, found)
    assert place is not None
    analyzer = analyzer_of(e.axes, sizes)
    at = values(*((a.var, integer(0, a.var)) for a in r.spatial))
    for i, target in zip(place, r.updates[0].indices, strict=True):
        if static(target) != 0:
            at[target] = as_dtype(analyzer.simplify(i), str(target.ty.dtype))
    moved = whole.at(at, e.axes, whole.reduced)
    held: NodeDict[Any] = NodeDict()
    for update, accumulator in zip(r.updates, moved.accumulators, strict=True):
        held[update.buffer] = accumulator.var
    expand = Expander(found)
    values_ = [expand(u.value) for u in e.updates]
    results = tuple(KernelOutput(u.buffer, u.indices, loaded(v, held))
                    for u, v in zip(e.updates, values_, strict=True))  # fmt: skip
    after = tuple((v, loaded(x, held)) for v, x in expand.lets)
    return replace(moved, after=after, results=results)
