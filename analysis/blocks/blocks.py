"""The blocks and accesses of a PrimFunc in TIR's standard form, as LegalizeOps and TE produce it.

A root block holds loop nests, one after the other. Each nest is around a single block whose
iterators are the loop variables:

    for i, k in T.grid(n, m):
        with T.sblock("stage"):
            v_i, v_k = T.axis.remap("SR", [i, k])
            out[v_i] = out[v_i] + x[v_i, v_k]

Indices are terms in normal form over variables of the block's iterators, which know their extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx

from ..lifting.size_scope import SizeScope
from ..lifting.tir.from_tir import ExpressionReader
from ..lifting.tir.node import NodeDict, items
from ..lifting.tir.unliftable import Unliftable
from ..support.tvm_compat import TensorLoad, is_predicated, source_of
from ..terms.term import ONE, ZERO, Int, Var, as_int, variable
from .block_terms import BlockEnv, Opaque, SizeTerms, by_data, index_term, size_term
from .standard_form import check_call, check_statements, loops_of, nodes_of

Index = tuple[Int | None, ...]


@dataclass(frozen=True)
class BlockAccess:
    """One load or store; ``indices`` has None for a coordinate that data decides."""

    buffer: Any
    indices: Index
    shape: tuple[Int, ...]


@dataclass(frozen=True)
class Stage:
    """One loop nest and its block.

    ``axes`` are the variables of the block's iterators; those in ``reduced`` are reductions. An
    iterator of extent 1 occurs in no index. ``order`` has, for each loop from the outermost, the
    iterator that the loop is a digit of, and the digit's place value. ``reads`` omits elements that
    the block itself stores. ``loops`` are the loops, from the outermost.
    """

    realize: Any
    axes: tuple[Var, ...]
    order: tuple[tuple[Var, int], ...]
    reduced: frozenset[Var]
    writes: tuple[BlockAccess, ...]
    reads: tuple[BlockAccess, ...]
    loops: tuple[Any, ...] = ()

    @property
    def block(self) -> Any:
        return self.realize.block


def stages(func: Any) -> tuple[Stage, ...]:
    """Return the blocks in program order; raise `Opaque` if this is not standard form."""
    return standard(func)[0]


def standard(func: Any) -> Standard:
    """Return the blocks, and the sizes and scalars of their terms."""
    if not isinstance(func, tirx.PrimFunc):
        raise Opaque(f"expected a PrimFunc, got {type(func).__name__}")
    body = func.body
    if type(body).__name__ != "SBlockRealize":
        raise Opaque("the body is not a root block")
    root = body.block
    if len(root.iter_vars) or len(root.match_buffers) or root.init is not None:
        raise Opaque("the root block has iterators, matched buffers or an init")
    reader = _Accesses(func)
    nests = items(root.body.seq) if type(root.body).__name__ == "SeqStmt" else [root.body]
    return tuple(reader.stage(nest) for nest in nests), reader.sizes


def sizes_of(func: Any) -> SizeTerms:
    """Return the sizes of a PrimFunc; raise `Opaque` for a parameter that is not understood."""
    return _Accesses(func).sizes


Standard = tuple[tuple[Stage, ...], "SizeTerms"]


class Forms:
    """`standard`, cached by PrimFunc."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Any, Standard | Opaque]] = {}  # by address; kept alive

    def __call__(self, func: Any) -> Standard:
        if not isinstance(func, tirx.PrimFunc):
            return standard(func)
        place = func.__chandle__()
        if place not in self._cache:
            self._cache[place] = func, self._read(func)
        form = self._cache[place][1]
        if isinstance(form, Opaque):
            raise Opaque(form.reason)
        return form

    @staticmethod
    def _read(func: Any) -> Standard | Opaque:
        try:
            return standard(func)
        except Opaque as error:
            return Opaque(error.reason)


def reader_of(stage: Stage, sizes: SizeTerms) -> ExpressionReader:
    """Return a reader of indices inside the block; it raises `Unliftable` for a data-dependent
    index.

    Unlike in a block's accesses, iterators of extent 1 keep their variables.
    """
    env = BlockEnv(sizes.env)
    for iv, var in zip(items(stage.block.iter_vars), stage.axes, strict=True):
        env.axes[iv.var] = as_int(var)
    return ExpressionReader(env, by_data)


class _Accesses:
    """Reads the blocks of one PrimFunc."""

    def __init__(self, func: Any) -> None:
        scope, params = SizeScope(), items(func.params)
        try:
            scope.bind_sizes(params, [None] * len(params))
        except Unliftable as error:
            raise Opaque(error.reason) from None
        self.sizes = SizeTerms(scope)
        self.shapes = NodeDict[tuple[Int, ...]]()

    def stage(self, nest: Any) -> Stage:
        loops, realize = loops_of(nest)
        env = BlockEnv(self.sizes.env)
        reader = ExpressionReader(env, by_data)
        axes, order = self.axes(loops, realize, env, reader)
        writes: dict[tuple[int, Index], BlockAccess] = {}
        reads: dict[tuple[int, Index], BlockAccess] = {}

        block = realize.block
        parts = [part for part in (block.init, block.body) if part is not None]
        for part in parts:
            check_statements(part, env, reader)
        stores, loads, calls = nodes_of(parts, tirx.BufferStore, TensorLoad, tvm.ir.Call)
        if any(map(is_predicated, (*stores, *loads))):
            raise Opaque("an access is predicated")
        for stmt in stores:
            self.note(writes, reader, stmt.buffer, stmt.indices)
        for expr in loads:
            self.note(reads, reader, source_of(expr), expr.indices)
        for expr in calls:
            check_call(expr)
        others = tuple(a for key, a in reads.items() if key not in writes)
        reduced = frozenset(v for v in axes if v.kind == "reduce")
        return Stage(realize, axes, order, reduced, tuple(writes.values()), others, loops)

    def axes(
        self, loops: Sequence[Any], realize: Any, env: BlockEnv, reader: ExpressionReader
    ) -> tuple[tuple[Var, ...], tuple[tuple[Var, int], ...]]:
        """Return the block's iterators, each over loops of its own, and the order of the loops."""
        around = _Loops(loops, self.sizes.env, reader)
        out: list[Var] = []
        pairs = zip(items(realize.block.iter_vars), items(realize.iter_values), strict=True)
        for k, (iv, value) in enumerate(pairs):
            extent = size_term(reader, iv.dom.extent)
            if size_term(reader, iv.dom.min) is not ZERO:
                raise Opaque("an iterator does not start at 0")
            kind = int(iv.iter_type)
            if kind not in (0, 2):
                raise Opaque("an iterator is neither spatial nor a reduction")
            var = variable("reduce" if kind == 2 else "loop", f"v{k}", extent)
            if not (extent is ONE and type(value).__name__ == "IntImm" and int(value) == 0):
                around.take(var, value, extent)
            env.axes[iv.var] = ZERO if extent is ONE else as_int(var)
            out.append(var)
        return tuple(out), around.order()

    def note(
        self,
        accesses: dict[tuple[int, Index], BlockAccess],
        reader: ExpressionReader,
        buffer: Any,
        indices: Any,
    ) -> None:
        index = tuple(index_term(reader, i) for i in items(indices))
        shape = self.shapes.get(buffer)
        if shape is None:
            shape = self.shapes[buffer] = self.sizes.shape(buffer)
        if len(shape) != len(index):
            raise Opaque("an access has another rank than its buffer")
        accesses.setdefault((buffer.__chandle__(), index), BlockAccess(buffer, index, shape))


class _Loops:
    """The loops of a nest; each is a digit of one iterator.

    for i, k_0, j, k_1 in T.grid(n, 16, m, 4):  v_k = k_0 * 4 + k_1
    """

    def __init__(self, loops: Sequence[Any], sizes: Any, reader: ExpressionReader) -> None:
        env = BlockEnv(sizes)
        self.loops = [variable("loop", f"l{k}", size_term(reader, s.extent))
                      for k, s in enumerate(loops)]  # fmt: skip
        for stmt, var in zip(loops, self.loops, strict=True):
            env.axes[stmt.loop_var] = as_int(var)
        self.reader = ExpressionReader(env, by_data)
        self.of: dict[Var, tuple[Var, int]] = {}

    def take(self, iterator: Var, value: Any, extent: Int) -> None:
        """Assign the loops of an iterator, whose value has these loops as digits."""
        index = index_term(self.reader, value)
        parts = [] if index is None else sorted(index.terms, key=lambda t: t[1])
        scale: Int = ONE
        for terms, coef in parts:
            term = terms[0] if len(terms) == 1 else None
            if (
                not isinstance(term, Var)
                or term not in self.loops
                or term in self.of
                or scale.const != coef
            ):
                raise Opaque("the binding of an iterator uses a loop of another iterator")
            assert term.extent is not None
            self.of[term] = (iterator, int(coef))
            scale = scale * term.extent
        if scale is not extent:
            raise Opaque("an iterator is not bound to one loop over its whole domain")

    def order(self) -> tuple[tuple[Var, int], ...]:
        """Return the iterator of each loop; the digits of reductions must not interleave."""
        if any(v not in self.of and v.extent is not ONE for v in self.loops):
            raise Opaque("a loop belongs to no iterator")
        order = tuple(self.of[v] for v in self.loops if v in self.of)
        reduced = [f for f in order if f[0].kind == "reduce"]
        firsts = list(dict.fromkeys(v for v, _ in reduced))
        if reduced != sorted(reduced, key=lambda f: (firsts.index(f[0]), -f[1])):
            raise Opaque("the loops of reductions interleave")
        return order
