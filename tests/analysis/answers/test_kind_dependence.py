"""Pattern kinds against what they mean: which elements of the inputs an element depends on.

The dependences are observed: the interpreter runs the PrimFunc with each input element changed. Of
an element ``out[y]``, for every operand,

- ``kElemWise``: on the element at ``y`` alone, of an operand of the output's shape;
- ``kBroadcast``: on one element alone, at some coordinates of ``y``, in order, or at 0;
- ``kInjective``: on no more elements than there are loads;
- ``kCommReduce``, ``kOutEWiseFusable``: on more, of one operand or several; as many for each ``y``
  and no two ``y`` on the same;
- ``kOpaque``: on more, in any other way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from opinfo.analysis import Refusal, lift, op_info
from opinfo.analysis.answer.kind import fusion_kind, pattern_kind

from ...common.interpret import compiled

Place = tuple[int, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A PrimFunc as text, the shapes of its inputs, and how often each is loaded at most."""

    inputs: tuple[Shape, ...]
    loads: tuple[int, ...]
    out: Shape
    body: str

    @property
    def func(self) -> Any:
        buffers = [*(f"a{k}" for k in range(len(self.inputs))), "out"]
        shapes = (*self.inputs, self.out)
        params = ", ".join(
            f'{b}: T.Buffer({s}, "float32")' for b, s in zip(buffers, shapes, strict=True)
        )
        head = (
            f"# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef main({params}):\n"
        )
        return tvm.script.from_source(head + self.body)


Depends = dict[Place, tuple[frozenset[Place], ...]]


def dependences(p: Program) -> Depends:
    """For each output element the elements of each input that change it."""
    run, rng = compiled(p.func), np.random.default_rng(0)
    base = [rng.uniform(0.5, 2.0, s) for s in p.inputs]
    (before,) = run(base)
    found = {y: [set[Place]() for _ in base] for y in np.ndindex(*p.out)}
    for k, values in enumerate(base):
        for at in np.ndindex(*values.shape):
            for value in (-7.5, 9.25):  # below and above all others: an extreme moves either way
                changed = [v.copy() for v in base]
                changed[k][at] = value
                (after,) = run(changed)
                for y in zip(*np.nonzero(after != before), strict=True):
                    found[tuple(map(int, y))][k].add(at)
    return {y: tuple(map(frozenset, sets)) for y, sets in found.items()}


def expected(p: Program) -> str:
    """The kind, by its definition."""
    depends = dependences(p)
    one_each = all(len(places) <= n for s in depends.values() for places, n in _by_load(s, p))
    if not one_each:
        return _combined(depends)
    single = all(len(places) == 1 for s in depends.values() for places in s)
    if single and all(s == p.out for s in p.inputs):
        if all(places == {y} for y, s in depends.items() for places in s):
            return "kElemWise"
    if single and all(_in_order(depends, k, p) for k in range(len(p.inputs))):
        return "kBroadcast"
    return "kInjective"


def _by_load(sets: tuple[frozenset[Place], ...], p: Program) -> Iterator[tuple[Any, int]]:
    return zip(sets, p.loads, strict=True)


def _in_order(depends: Depends, k: int, p: Program) -> bool:
    """Whether some choice of the output's axes, in order, is where operand k is read."""
    shape = p.inputs[k]
    wide = [d for d, e in enumerate(shape) if e > 1]
    return any(
        all(shape[d] == p.out[a] for d, a in zip(wide, axes, strict=True))
        and all(
            sets[k]
            == {tuple(y[axes[wide.index(d)]] if d in wide else 0 for d in range(len(shape)))}
            for y, sets in depends.items()
        )
        for axes in combinations(range(len(p.out)), len(wide))
    )


def _combined(depends: Depends) -> str:
    sets = list(depends.values())
    if len(set(sets)) < len(sets) or len({tuple(map(len, s)) for s in sets}) > 1:
        return "kOpaque"
    return "kCommReduce" if len(sets[0]) == 1 else "kOutEWiseFusable"


# ---------------------------------------------------------------------- programs

AXES = ("i", "j", "k")


def access(draw: Any, out: Shape) -> tuple[Shape, list[str]]:
    """How an operand is read: its shape, and its index over the axes of the output."""
    axes = list(range(len(out)))
    how = draw(st.sampled_from(["same", "same", "some", "ones", "permuted", "reversed", "part"]))
    if how == "some":
        kept = draw(st.integers(0, len(out) - 1))
        axes = sorted(draw(st.permutations(axes))[: kept + 1])
    elif how == "permuted":
        axes = draw(st.permutations(axes))
    shape, index = [out[a] for a in axes], [AXES[a] for a in axes]
    d = draw(st.integers(0, len(axes) - 1))
    if how == "ones":
        shape[d], index[d] = 1, "0"
    elif how == "reversed":
        index[d] = f"{shape[d] - 1} - {index[d]}"
    elif how == "part":
        shape[d] += draw(st.integers(1, 2))
        index[d] += draw(st.sampled_from(["", " + 1"]))
    return tuple(shape), index


def loops(axes: tuple[str, ...], extents: Shape) -> str:
    return "".join(
        "    " * (n + 1) + f"for {a} in range({e}):\n"
        for n, (a, e) in enumerate(zip(axes, extents, strict=True))
    )


@st.composite
def pointwise(draw: Any) -> Program:
    """Elements of up to three operands, each read anyhow; one may be read twice."""
    out = tuple(draw(st.lists(st.integers(2, 3), min_size=1, max_size=3)))
    inputs, loads, terms = [], [], []
    for k in range(draw(st.integers(1, 3 if len(out) < 3 else 2))):
        shape, index = access(draw, out)
        inputs.append(shape)
        loads.append(1)
        terms.append(f"a{k}[{', '.join(index)}]")
        if draw(st.integers(0, 5)) == 0:
            terms.append(f"a{k}[{', '.join(['0'] * len(shape))}]")
            loads[-1] = 2
    form = draw(st.sampled_from(["T.exp({})", "{} + T.float32(1)", "{}"]))
    value = form.format(draw(st.sampled_from([" + ", " * "])).join(terms))
    names = AXES[: len(out)]
    store = "    " * (len(out) + 1) + f"out[{', '.join(names)}] = {value}\n"
    return Program(tuple(inputs), tuple(loads), out, loops(names, out) + store)


@st.composite
def packed(draw: Any) -> Program:
    """An elementwise function of operands of which some are stored in blocks of two."""
    rows, columns = draw(st.integers(2, 3)), 4
    plain, block = ((rows, columns), "{i}, {j}"), ((rows, 2, 2), "{i}, {j} // 2, {j} % 2")
    inner = ((2, rows, 2), "{j} // 2, {i}, {j} % 2")
    forms = [draw(st.sampled_from([plain, block, inner])) for _ in range(3)]
    count = draw(st.integers(1, 2))
    at = [f"[{index.format(i='i', j='j')}]" for _, index in forms]
    value = " + ".join(f"a{k}{at[k]}" for k in range(count))
    body = loops(("i", "j"), (rows, columns)) + f"            out{at[2]} = T.exp({value})\n"
    return Program(tuple(s for s, _ in forms[:count]), (1,) * count, forms[2][0], body)


@st.composite
def reduced(draw: Any) -> Program:
    """A sum, a product or an extreme over some axes of one operand or two."""
    extents = dict(zip("ijk", draw(st.tuples(*[st.integers(2, 3)] * 3)), strict=True))
    over = draw(st.sampled_from(["k", "j", "jk", "ik"]))
    kept = [a for a in "ijk" if a not in over]
    used = [["i", "j", "k"]]
    if draw(st.booleans()):
        used = [[a for a in "ijk" if a != d] for d in (("j", "i") if over == "k" else ("k", "j"))]
    for axes in used:
        axes[:] = draw(st.permutations(axes))
    loaded = " * ".join(f"a{k}[{', '.join(axes)}]" for k, axes in enumerate(used))
    op, start = draw(st.sampled_from([("{} + {}", 0.0), ("T.max({}, {})", -1e9)]))
    outer = "".join(
        "    " * (n + 1) + f"for {a} in range({extents[a]}):\n" for n, a in enumerate(kept)
    )
    pad, element = "    " * (len(kept) + 1), f"out[{', '.join(kept)}]"
    inner = "".join(
        pad + "    " * n + f"for {a} in range({extents[a]}):\n" for n, a in enumerate(over)
    )
    update = pad + "    " * len(over) + f"{element} = {op.format(element, loaded)}\n"
    body = f"{outer}{pad}{element} = T.float32({start})\n{inner}{update}"
    shapes = tuple(tuple(extents[a] for a in axes) for axes in used)
    return Program(shapes, (1,) * len(used), tuple(extents[a] for a in kept), body)


SCAN = """    for i in range({0}):
        out[i, 0] = a0[i, 0]
        for j in range({1} - 1):
            out[i, j + 1] = out[i, j] + a0[i, j + 1]
"""
NORM = """    s = T.alloc_buffer(({0},), "float32")
    for i in range({0}):
        s[i] = T.float32(0)
        for j in range({1}):
            s[i] = s[i] + a0[i, j]
        for j in range({1}):
            out[i, j] = a0[i, j] * s[i]
"""
SPREAD = NORM.replace("a0[i, j] * s[i]", "s[i]")


@st.composite
def dependent(draw: Any) -> Program:
    """Elements that depend on each other or on one sum."""
    shape = (draw(st.integers(2, 3)), draw(st.integers(3, 4)))
    body = draw(st.sampled_from([SCAN, NORM, SPREAD])).format(*shape)
    return Program((shape,), (1,), shape, body)


FAMILIES = {"pointwise": 45, "packed": 20, "reduced": 30, "dependent": 5}


@pytest.mark.parametrize("name", FAMILIES)
def test_kinds_are_what_they_are_defined_to_be(name: str) -> None:
    family = globals()[name]

    @settings(max_examples=FAMILIES[name], deadline=None, derandomize=True, database=None)
    @given(family())
    def check(p: Program) -> None:
        kind, func = expected(p), p.func
        assert pattern_kind(lift(func)) == kind, p
        if name == "packed":
            info = op_info(func)
            assert isinstance(info, Refusal) or info.kind == kind, (p, info)
        follows = kind in ("kBroadcast", "kInjective") and _follows(p)
        assert fusion_kind(lift(func)) == ("kElemWise" if follows else kind), p

    check()


def _follows(p: Program) -> bool:
    """Whether an operand is read at the output's own place of memory, the others in its order."""
    depends = dependences(p)
    if any(len(places) != 1 for sets in depends.values() for places in sets):
        return False
    bare = re.search(r"= a0\[[^\]]*\]$", p.body.rstrip()) is not None
    at = [{y: next(iter(sets[k])) for y, sets in depends.items()} for k in range(len(p.inputs))]
    own = [_spread(read, shape, p.out) == tuple(range(len(p.out))) and (shape == p.out or not bare)
           for read, shape in zip(at, p.inputs, strict=True)]  # fmt: skip
    return any(own) and all(
        _spread(read, shape, p.out) is not None and (mine or shape != p.out)
        for mine, read, shape in zip(own, at, p.inputs, strict=True)
    )


def _spread(read: Mapping[Place, Place], shape: Shape, out: Shape) -> tuple[int, ...] | None:
    """The axes of the output whose coordinates are, as digits, the place in the whole operand."""
    axes = tuple(
        a for a in range(len(out))
        if any(read[y] != read[(*y[:a], 0, *y[a + 1:])] for y in read)
    )  # fmt: skip
    extents = tuple(out[a] for a in axes)
    if math.prod(extents) != math.prod(shape):
        return None
    for y, place in read.items():
        digits = np.ravel_multi_index([y[a] for a in axes], extents) if axes else 0
        if digits != np.ravel_multi_index(place, shape):
            return None
    return axes
