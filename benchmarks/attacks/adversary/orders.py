"""Blocks in TIR's standard form whose results may depend on the order of their iterations.

Iterators are listed in another order than their loops, spatial ones share elements, reductions do
not commute or read other elements, and declared regions lie. TVM runs such a program as its loops
say; what rewrites or schedules it must keep the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .program import HEADER, Program

Shape = tuple[str, ...]
OPERANDS: dict[str, Shape] = {"x": ("n", "m"), "y": ("m",), "w": ("n", "m", "k")}
UPDATES = (
    "{s} + {v}", "{s} + {v}", "T.max({s}, {v})", "T.min({v}, {s})", "{s} * {v}", "{s} - {v}",
    "{v} - {s}", "{s} * {two} + {v}", "T.Select({v} > {s}, {v}, {s})",
    "T.Select({v} >= {s}, {v}, {s})", "{v}", "T.if_then_else({r} == 0, {v}, {s} + {v})",
    "T.if_then_else({v} > {zero}, {s} + {v}, {s})",
)  # fmt: skip
VALUES = (
    "{a} + {b}", "{a} * {b}", "T.max({a}, {b})", "{a} - {b}", "T.Select({a} > {b}, {a}, {b})",
    "T.if_then_else({i} > 0, {a}, {b})", "{a} * {a}",
)  # fmt: skip


def orders(rng: random.Random) -> Program:
    """One to three blocks over buffers of up to three axes."""
    writer = _Writer(rng)
    shape = rng.choice((("n",), ("n", "m"), ("m", "n"), ("m",), ("n", "m", "k"), ("k", "n")))
    inner = [
        rng.choice((("n",), ("n", "m"), ("m",), ("m", "n")))
        for _ in range(rng.choice((0, 0, 1, 1, 2)))
    ]
    body = ['T.func_attr({"tirx.noalias": True})']
    body += [
        f"t{k} = T.sblock_alloc_buffer({writer.extents(s)}, {writer.dtype!r})"
        for k, s in enumerate(inner)
    ]
    for k, own in enumerate((*inner, shape)):
        name = f"t{k}" if k < len(inner) else "out"
        body += _Block(writer, name, own).lines(k)
        writer.buffers[name] = own
    used = [name for name in OPERANDS if name in writer.used]
    params = [(name, OPERANDS[name]) for name in used] + [("out", shape)]
    types = (f"{name}: T.Buffer({writer.extents(s)}, {writer.dtype!r})" for name, s in params)
    text = f"def main({', '.join(types)}):\n" + "".join(f"    {line}\n" for line in body)
    return Program("order of iterations", HEADER + text, len(used))


@dataclass
class _Writer:
    """The extents and the type of a program, and the buffers so far."""

    rng: random.Random
    buffers: dict[str, Shape] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        sizes = {"n": (1, 2, 3, 5, 8, 9, 17), "m": (1, 2, 3, 5, 8, 16), "k": (1, 2, 3, 4)}
        self.sizes = {name: self.rng.choice(of) for name, of in sizes.items()}
        self.dtype = self.rng.choice(("float32", "float32", "float32", "int32", "float16"))

    def extents(self, shape: Shape) -> str:
        return f"({''.join(f'{self.sizes[e]}, ' for e in shape)})"

    def literal(self, value: float) -> str:
        return f"T.{self.dtype}({value})"


class _Block:
    """A loop nest around a block that writes one buffer."""

    def __init__(self, writer: _Writer, name: str, shape: Shape) -> None:
        self.writer, self.rng, self.name, self.shape = writer, writer.rng, name, shape
        rng = writer.rng
        self.kind = rng.choice(("map", "reduce", "reduce", "shared", "before"))
        self.axes = [(e, "spatial") for e in shape]
        if self.kind == "reduce":
            self.axes += [(rng.choice("nmk"), "reduce") for _ in range(rng.choice((1, 1, 2)))]
        if self.kind == "shared" or (self.kind == "reduce" and rng.random() < 0.15):
            self.axes.append((rng.choice("mk"), "spatial"))

    def lines(self, number: int) -> list[str]:
        """The loops, the block, its iterators in another order, and its statements."""
        rng, places = self.rng, list(range(len(self.axes)))
        loops, iterators = (
            rng.sample(places, len(places)) if rng.random() < 0.5 else places for _ in range(2)
        )
        init, statement = self.statements()
        block = [f'with T.sblock("b{number}"):']
        for k in iterators:
            extent, kind = self.axes[k]
            block.append(f"    v{k} = T.axis.{kind}({self.writer.sizes[extent]}, l{k})")
        if rng.random() < 0.25:
            whole = ", ".join(f"0:{self.writer.sizes[e]}" for e in self.shape)
            block += ["    T.reads()", f"    T.writes({self.name}[{whole}])"]
        if init:
            block += ["    with T.init():", f"        {init}"]
        lines = [*block, f"    {statement}"]
        for k in reversed(loops):
            size = self.writer.sizes[self.axes[k][0]]
            lines = [f"for l{k} in range({size}):", *(f"    {line}" for line in lines)]
        return lines

    def statements(self) -> tuple[str, str]:
        """The store of the initial value, or nothing, and the store of the block."""
        rng, literal = self.rng, self.writer.literal
        index = [f"v{k}" for k in range(len(self.shape))]
        if self.kind == "before":
            k = rng.randrange(len(index))
            before = ", ".join(f"T.max({v} - 1, 0)" if d == k else v for d, v in enumerate(index))
            target = f"{self.name}[{', '.join(index)}]"
            earlier = f"{self.name}[{before}] + {self.leaf()}"
            return "", f"{target} = T.if_then_else(v{k} > 0, {earlier}, {self.leaf()})"
        if rng.random() < 0.15:
            k = rng.randrange(len(index))
            index[k] = f"{self.writer.sizes[self.shape[k]] - 1} - v{k}"
        elif len(index) > 1 and rng.random() < 0.15:
            index[0] = f"(v0 + v1) % {self.writer.sizes[self.shape[0]]}"
        target = f"{self.name}[{', '.join(index)}]"
        if self.kind != "reduce":
            return "", f"{target} = {self.value(2)}"
        update = rng.choice(UPDATES).format(
            s=target, v=self.value(1), two=literal(2), zero=literal(0), r=f"v{len(self.axes) - 1}"
        )
        return f"{target} = {literal(rng.choice((0, 0, 0, 1, -1)))}", f"{target} = {update}"

    def value(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.leaf()
        a, b = self.value(depth - 1), self.value(depth - 1)
        iterator = f"v{self.rng.randrange(len(self.axes))}"
        return f"({self.rng.choice(VALUES).format(a=a, b=b, i=iterator)})"

    def leaf(self) -> str:
        """An element of an operand or of an earlier block."""
        rng, buffers = self.rng, self.writer.buffers
        if buffers and rng.random() < 0.5:
            return self.element(*rng.choice(list(buffers.items())))
        name = rng.choice(list(OPERANDS))
        self.writer.used.add(name)
        return self.element(name, OPERANDS[name])

    def element(self, name: str, shape: Shape) -> str:
        index = []
        for extent in shape:
            same = [f"v{k}" for k, (e, _) in enumerate(self.axes) if e == extent]
            place, size = self.rng.choice(same) if same else "0", self.writer.sizes[extent]
            forms = (f"{size - 1} - {place}", f"T.max({place} - 1, 0)", f"({place} + 1) % {size}")
            index.append(self.rng.choice(forms) if self.rng.random() < 0.2 else place)
        return f"{name}[{', '.join(index)}]"
