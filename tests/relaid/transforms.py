"""Random layouts for the buffers of a PrimFunc, applied with TVM's own Schedule."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import Schedule

from opinfo.analysis.support.ir.deep_copy import copied
from opinfo.analysis.support.tvm_compat import StmtSimplify, source_of

KINDS = ("permute", "permute", "pack", "pack", "pack_two", "pad", "pad", "levels", "fuse")


@dataclass(frozen=True)
class Moved:
    """A transformed PrimFunc; ``moves`` tells ``(buffer, kind, layout)`` of each that applied."""

    func: Any
    moves: tuple[tuple[str, str, str], ...]

    @property
    def padded(self) -> bool:
        return any(kind == "pad" for _, kind, _ in self.moves)


def move(func: Any, rng: random.Random) -> Moved:
    """The function with some of its buffers, and perhaps a block, in random layouts."""
    copy = copied(func)
    sch = Schedule(tvm.IRModule({"main": copy}))
    moves = []
    places = list(buffers(sch))
    chosen = [p for p in places if rng.random() < 0.6] or [rng.choice(places)]
    for name, block, place in chosen:
        rank = len(buffer(sch, block, place).ty.shape)
        shape = [_literal(e) for e in buffer(sch, block, place).ty.shape]
        kind = rng.choice(KINDS)
        results = layout(kind, shape, rng)
        if results is None or rank == 0:
            continue
        extra: dict[str, Any] = {}
        if kind == "pad":
            dtype = str(buffer(sch, block, place).ty.dtype)
            value = rng.choice((0, 1))
            extra["pad_value"] = float(value) if "float" in dtype else value
        try:
            sch.transform_layout(block, place, _map(results, _dtype(sch, block, place)), **extra)
        except (ValueError, TypeError, RuntimeError):
            continue
        moves.append((name, kind, text(results)))
    if rng.random() < 0.15:
        _block(sch, rng)
    return Moved(_tidy(sch.mod)["main"], tuple(moves))


def _tidy(mod: Any) -> Any:
    return StmtSimplify()(mod)


def _literal(e: Any) -> int | None:
    return int(e.value) if isinstance(e, tirx.IntImm) else None


def _dtype(sch: Any, block: Any, place: tuple[str, int]) -> str:
    shape = buffer(sch, block, place).ty.shape
    return str(shape[0].ty.dtype) if len(shape) else "int64"


def buffers(sch: Any) -> Iterator[tuple[str, Any, tuple[str, int]]]:
    """Each buffer once, with a block and the place among its reads or writes."""
    seen: list[Any] = []
    root = sch.get_sblock(sch.mod["main"].body.block.name_hint)
    for block in sch.get_child_blocks(root):
        b = sch.get(block)
        for kind, regions in (("read", b.reads), ("write", b.writes)):
            for k, region in enumerate(regions):
                if not any(source_of(region).same_as(s) for s in seen):
                    seen.append(source_of(region))
                    yield str(source_of(region).name), block, (kind, k)


def buffer(sch: Any, block: Any, place: tuple[str, int]) -> Any:
    b = sch.get(block)
    return source_of((b.reads if place[0] == "read" else b.writes)[place[1]])


def _block(sch: Any, rng: random.Random) -> None:
    """Another order of a block's iterators."""
    root = sch.get_sblock(sch.mod["main"].body.block.name_hint)
    block = rng.choice(sch.get_child_blocks(root))
    count = len(sch.get(block).iter_vars)
    order = rng.sample(range(count), count)
    axes = [tirx.Var(f"i{d}", str(sch.get(block).iter_vars[d].var.ty.dtype)) for d in range(count)]
    try:
        sch.transform_block_layout(block, tirx.IndexMap(axes, [axes[k] for k in order], None))
    except (ValueError, RuntimeError):
        return


# ---------------------------------------------------------------------------- layouts

#: A physical dimension: ``(d, divisor, modulus)`` for digits of logical ones, fused from the left.
Digit = tuple[int, int, int | None]
Results = list[list[tuple[Digit, int]]]


def layout(kind: str, shape: Sequence[int | None], rng: random.Random) -> Results | None:
    """Random physical dimensions over logical ones of these extents; None if there are none."""
    rank = len(shape)
    dims: list[list[tuple[Digit, int]]] = [[((d, 1, None), 1)] for d in range(rank)]
    tail: list[list[tuple[Digit, int]]] = []
    known = [d for d in range(rank) if shape[d] is not None and shape[d] != 1]
    if kind == "permute":
        return rng.sample(dims, rank)
    if kind in ("pack", "pack_two", "pad", "levels"):
        wanted = rng.sample(known, min(len(known), 2 if kind == "pack_two" else 1))
        if not wanted:
            return None
        for d in wanted:
            factors = _factors(kind, shape[d] or 1, rng)
            if factors is None:
                return None
            for k, f in enumerate(factors):
                below = factors[k + 1 :]
                step = 1
                for g in below:
                    step *= g
                tail.append([((d, step, f), 1)])
            whole = 1
            for f in factors:
                whole *= f
            dims[d] = [((d, whole, None), 1)]
    if kind == "fuse":
        if rank < 2:
            return None
        at = rng.randrange(rank - 1)
        inner = shape[at + 1]
        if inner is None:
            return None
        dims[at : at + 2] = [[((at, 1, None), inner), ((at + 1, 1, None), 1)]]
        return dims
    if rng.random() < 0.2:
        return rng.sample([*dims, *tail], len(dims) + len(tail))
    return [*dims, *tail]


def _factors(kind: str, extent: int, rng: random.Random) -> list[int] | None:
    """The extents of the inner digits."""
    if kind == "pad":
        return [rng.choice([f for f in (2, 3, 4, 8) if extent % f])]
    divisors = [f for f in (2, 3, 4, 8) if extent % f == 0]
    if kind == "levels":
        pairs = [(f, g) for f in divisors for g in (2, 4) if extent % (f * g) == 0]
        return list(rng.choice(pairs)) if pairs else None
    return [rng.choice(divisors)] if divisors else None


def _map(results: Results, dtype: str) -> Any:
    rank = 1 + max(digit[0] for parts in results for digit, _ in parts)

    def fn(*v: Any) -> list[Any]:
        out = []
        for parts in results:
            total = None
            for (d, div, mod), coef in parts:
                e = v[d] if div == 1 else v[d] // div
                e = e if mod is None else e % mod
                e = e if coef == 1 else e * coef
                total = e if total is None else total + e
            out.append(total)
        return out

    axes = [tirx.Var(f"i{d}", dtype) for d in range(rank)]
    return tirx.IndexMap(axes, fn(*axes), None)


def text(results: Results) -> str:
    """``ab/4c%4``: for messages."""

    def one(d: int, div: int, mod: int | None) -> str:
        letter = "abcdefgh"[d]
        return letter + (f"/{div}" if div != 1 else "") + ("" if mod is None else f"%{mod}")

    return " ".join(
        "+".join((f"{c}*" if c != 1 else "") + one(*digit) for digit, c in parts)
        for parts in results
    )
