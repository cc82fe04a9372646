"""A PrimFunc in standard form over buffers in other layouts; nothing is proved here.

Before: out[n, c, h, w] = Σ pad[n, r, h + y, w + x] * w[c, r, y, x]     NCHW, OIHW
After:  out[n, h, w, c] = Σ pad[n, h + y, w + x, r] * w[c, y, x, r]     NHWC, OHWI
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.block_terms import SizeTerms
from ...analysis.blocks.blocks import Stage, Standard, reader_of, standard
from ...analysis.index_map.maps.from_terms import to_tvm
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.tvm_compat import SBlock, SBlockRealize, same_access, source_of
from ...analysis.terms.term import Int, Var, as_int, variable
from ...analysis.terms.traversal import ints
from ..access.inner_layouts import Layouts, spread
from ..model.extents import literal, physical
from ..model.layout import Layout
from ..verify.paired_buffers import Correspondence
from .body import Body
from .loop_order import Iterator, Loop
from .nest import BlockNest, nest
from .padding import guarded_step, guarded_store, harmless, keeps_padding

LoopOrder = Literal["tiled", "layout", "given"]


class Unmovable(Exception):
    """Why a PrimFunc has no form over other layouts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class CandidateRewrite:
    """An unproved PrimFunc, and how it should correspond to the original."""

    func: Any
    correspondence: Correspondence | None = None


def write_candidate(
    func: Any,
    layouts: Sequence[Layout | None],
    loop_order: LoopOrder = "layout",
    form: Standard | None = None,
) -> CandidateRewrite:
    """The PrimFunc over buffers in these layouts; None keeps a buffer's layout.

    ``form`` has its stages if they were read before.

    Raises `Opaque` if it is not in standard form, `Unmovable` with the reason if the padding of a
    result cannot be written.
    """
    stages, sizes = form or standard(func)
    param_layouts: Layouts = NodeDict()
    for param, layout in zip(items(func.params), layouts, strict=True):
        if is_buffer_var(param):
            param_layouts[param] = layout or Layout.identity(len(param.ty.shape))
    return _StageWriter(func, stages, sizes, param_layouts, loop_order).written()


def decl(buffer: Any, layout: Layout, shape: Sequence[Int], leaves: Mapping[Var, Any]) -> Any:
    """Declare a buffer like ``buffer`` in a layout."""
    index, scope = str(buffer.ty.shape[0].ty.dtype), str(buffer.ty.storage_scope)
    extents = [to_tvm(e, leaves, index) for e in physical(shape, layout)]
    scope = "" if scope == "global" else scope
    tiles = None if buffer.ty.layout is None else "default"
    dtype, offset = str(buffer.ty.dtype), buffer.ty.elem_offset
    if type(offset).__name__ != "Var":
        return tirx.decl_buffer(extents, dtype, buffer.name, scope=scope, layout=tiles)
    new_offset = tirx.Var(offset.name, str(offset.ty.dtype))  # the caller binds it
    factor = int(buffer.ty.offset_factor)
    return tirx.decl_buffer(
        extents, dtype, buffer.name, None, None, new_offset, scope, -1, factor, None, tiles
    )


class _StageWriter:
    """Writes the stages of a PrimFunc over buffers in other layouts."""

    def __init__(
        self,
        func: Any,
        stages: Sequence[Stage],
        sizes: SizeTerms,
        param_layouts: Layouts,
        loop_order: LoopOrder,
    ) -> None:
        self.func, self.stages, self.sizes = func, stages, sizes
        self.follow, self.tile = loop_order != "given", loop_order == "tiled"
        self.layouts = spread(stages, param_layouts)
        self.root = func.body.block
        self.shapes = NodeDict[tuple[Int, ...]]()
        self.buffers = NodeDict[Any]()
        self.iterators: list[Mapping[Var, Int]] = []
        self.started = NodeDict[bool]()  # whether a stage has written a buffer before

    def written(self) -> CandidateRewrite:
        params = [self.buffer(p) if is_buffer_var(p) else p for p in items(self.func.params)]
        inner = [self.buffer(b) for b in items(self.root.alloc_buffers)]
        nests = [self.stage(s) for s in self.stages]
        body = nests[0] if len(nests) == 1 else tirx.SeqStmt(nests)
        root = SBlock([], [], [], self.root.name_hint, body, alloc_buffers=inner)
        realize = SBlockRealize([], True, root)
        func = tirx.PrimFunc(params, realize, self.func.ret_type, self.func.attrs)
        pairs = tuple((b, new, self.layouts[b]) for b, new in self.buffers.items())
        correspondence = Correspondence(pairs, tuple(self.iterators))
        return CandidateRewrite(func, correspondence)

    def buffer(self, buffer: Any) -> Any:
        shape = self.shapes[buffer] = self.sizes.shape(buffer)
        layout = self.layouts.get(buffer)
        if layout is None:
            layout = self.layouts[buffer] = Layout.identity(len(shape))
        if layout.is_identity:
            self.buffers[buffer] = buffer
            return buffer
        new = self.buffers[buffer] = decl(buffer, layout, shape, self.sizes.leaves)
        return new

    # ------------------------------------------------------------------ one stage

    def stage(self, stage: Stage) -> Any:
        reader = reader_of(stage, self.sizes)
        block_nest = nest(stage, self.layouts, reader, self.follow, self.tile)
        self.iterators.append(_over_block(block_nest))
        dtype = _index_dtype(stage)
        leaves: dict[Var, Any] = {}
        stems: set[str] = set()
        for iterator in block_nest.iterators:
            leaves[iterator.var] = tirx.Var(
                f"v_{_unique(iterator.stem.removeprefix('v_'), stems)}", dtype
            )
        leaves.update(self.sizes.leaves)
        old = {v: iv.var for v, iv in zip(stage.axes, items(stage.block.iter_vars), strict=True)}
        moved = self.layouts[stage.writes[0].buffer].dims
        stored = NodeDict[None]()  # buffers whose accesses are all at the element that is stored
        for access in stage.writes:
            if block_nest.place is not None and self.layouts[access.buffer].dims == moved:
                stored[access.buffer] = None
        body = Body(
            block_nest, stored, self.layouts, self.buffers, leaves, old, reader, self.shapes, dtype
        )
        init = None if stage.block.init is None else body(stage.block.init)
        init, code = self.guarded(stage, block_nest, body, init, body(stage.block.body))
        return self.loops(stage, block_nest, body, init, code, dtype)

    def guarded(
        self, stage: Stage, block_nest: BlockNest, body: Body, init: Any, code: Any
    ) -> tuple[Any, Any]:
        """The statements that give the padding its pad value, or any value if none is promised."""
        padded = [w for w in stage.writes if self.layouts[w.buffer].padded(literal(w.shape))]
        first = [w for w in padded if w.buffer not in self.started]
        for access in stage.writes:
            self.started[access.buffer] = True
        promised = any(self.layouts[w.buffer].pad_value is not None for w in padded)
        if not padded:
            return init, code
        if block_nest.place is None:
            if any(self.layouts[w.buffer].pad_value is not None for w in first):
                raise Unmovable("the block that writes a result cannot write its padding")
            return init, code
        if promised and len({self.layouts[w.buffer].dims for w in stage.writes}) > 1:
            raise Unmovable("results of one block have different layouts with padding")
        shapes = [self.physical(a.buffer) for a in stage.reads]
        if harmless(stage, block_nest, self.layouts, shapes) and not (
            promised and not keeps_padding(stage, block_nest, self.layouts)
        ):
            return init, code
        inside = body.index(block_nest.inside)
        values = NodeDict[float]()
        for access in stage.writes:
            values[self.buffers[access.buffer]] = self.layouts[access.buffer].pad_value or 0
        if init is None:
            return None, guarded_store(code, inside, values)
        return guarded_store(init, inside, values), guarded_step(code, inside)

    def physical(self, buffer: Any) -> tuple[Int, ...]:
        return physical(self.shapes[buffer], self.layouts[buffer])

    def loops(
        self, stage: Stage, block_nest: BlockNest, body: Body, init: Any, code: Any, dtype: str
    ) -> Any:
        iters, values = [], []
        split = Counter(k.iterator for k in block_nest.loops)
        names: dict[Loop, Any] = {}
        value: dict[Iterator, Any] = {}
        for loop in block_nest.loops:
            stem = body.leaves[loop.iterator.var].name.removeprefix("v_")
            name = f"{stem}_{int(loop.div == 1)}" if split[loop.iterator] > 1 else stem
            digit = names[loop] = tirx.Var(name, dtype)
            digit = digit if loop.div == 1 else digit * tirx.IntImm(dtype, loop.div)
            value[loop.iterator] = value[loop.iterator] + digit if loop.iterator in value else digit
        for iterator in block_nest.iterators:
            dom = tvm.ir.Range(tirx.IntImm(dtype, 0), body.index(iterator.extent))
            iters.append(tirx.IterVar(dom, body.leaves[iterator.var], 2 if iterator.reduced else 0))
            values.append(value.get(iterator, tirx.IntImm(dtype, 0)))
        reads, writes = ([_region(e) for e in touched.values()] for touched in body.touched)
        block = SBlock(
            iters, _without(reads, writes, init), writes, stage.block.name_hint, code, init
        )
        out: Any = SBlockRealize(values, True, block)
        for loop in reversed(block_nest.loops):
            zero = tirx.IntImm(dtype, 0)
            out = tirx.For(names[loop], zero, body.index(loop.extent), tirx.ForKind.SERIAL, out)
        return out


def _index_dtype(stage: Stage) -> str:
    kinds = {str(iv.var.ty.dtype) for iv in stage.block.iter_vars}
    if len(kinds) > 1:
        raise Unmovable(f"iterators of several types: {sorted(kinds)}")
    return kinds.pop() if kinds else "int64"


def _over_block(block_nest: BlockNest) -> Mapping[Var, Int]:
    """The old iterators over the new ones as a block's stage names them."""
    names = {
        iterator.var: as_int(variable(iterator.var.kind, f"v{k}", iterator.extent))
        for k, iterator in enumerate(block_nest.iterators)
    }
    return {v: ints(p, names) for v, p in block_nest.at.items()}


def _unique(stem: str, names: set[str]) -> str:
    while stem in names:
        stem += "_"
    names.add(stem)
    return stem


def _region(load: Any) -> Any:
    """The region of the one element that is accessed."""
    ranges = [
        tvm.ir.Range.from_min_extent(i, tirx.IntImm(str(i.ty.dtype), 1)) for i in load.indices
    ]
    return tirx.stmt.BufferRegion(source_of(load), ranges)


def _without(reads: list[Any], writes: list[Any], init: Any) -> list[Any]:
    """The reads without those of a reduction's own result, which are not declared."""
    if init is None:
        return reads
    return [r for r in reads if not any(same_access(r, w) for w in writes)]
