"""A random ONNX model with its inputs: one seed is one model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .families import FAMILIES
from .graphs import runtime
from .graphs.graph import Graph, Value
from .graphs.runtime import Array
from .graphs.values import FLOATS, INTEGERS, extents

#: Versions of the operator set, by how often they are drawn.
OPSETS = (13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 21, 21, 22)
#: The sizes of the symbols, for each binding; all differ, so that equal sizes are one symbol.
SIZES = {"n": ((4, 6, 1), (5, 2, 9), (3, 8, 2)), "m": ((7, 10, 12), (6, 11, 3), (2, 12, 14))}
#: Attempts to add a node for each node that is wanted.
ATTEMPTS = 6


@dataclass(frozen=True, eq=False)
class Model:
    """A model, and the inputs by name of each binding of its symbols."""

    proto: Any
    feeds: tuple[Mapping[str, Array], ...]

    @property
    def is_symbolic(self) -> bool:
        return len(self.feeds) > 1

    def save(self, path: Path) -> None:
        """Write the model, and its inputs beside it."""
        path.write_bytes(self.proto.SerializeToString())
        arrays = {f"{k} {name}": a for k, feed in enumerate(self.feeds) for name, a in feed.items()}
        with path.with_suffix(".npz").open("wb") as file:
            np.savez(file, bindings=len(self.feeds), **arrays)  # type: ignore[arg-type]


def saved(path: Path) -> Model:
    """Read what `Model.save` wrote."""
    import onnx

    with np.load(path.with_suffix(".npz")) as arrays:
        feeds: list[dict[str, Array]] = [{} for _ in range(int(arrays["bindings"]))]
        for key in arrays.files:
            place, _, name = key.partition(" ")
            if name:
                feeds[int(place)][name] = arrays[key]
    return Model(onnx.load(path), tuple(feeds))


def model(seed: int, nodes: int = 0) -> Model:
    """Return the model of a seed.

    Args:
        seed: The seed.
        nodes: About how many nodes it has; by default 5 to 40, as the seed says.
    """
    rng = random.Random(seed)
    symbols = {name: rng.choice(sizes) for name, sizes in SIZES.items()}
    bindings = 3 if rng.random() < 0.4 else 1
    sizes = {name: own[:bindings] for name, own in symbols.items()}
    g = Graph(rng, rng.choice(OPSETS), sizes["n"], edges=rng.random() < 0.25)
    _inputs(g, sizes)
    wanted = nodes or rng.choice((5, 8, 12, 12, 16, 20, 25, 30, 40))
    families, shares = list(FAMILIES), list(FAMILIES.values())
    for _ in range(wanted * ATTEMPTS):
        if len(g.nodes) >= wanted:
            break
        rng.choices(families, shares)[0](g)
    return _finished(g, sizes)


def _inputs(g: Graph, sizes: Mapping[str, Sequence[int]]) -> None:
    """Add one to three inputs of one main dtype; symbolic ones have n first or m last, or both."""
    rng = g.rng
    main = rng.choice(("float32",) * 8 + FLOATS[1:] + ("float16",))
    for k in range(rng.choice((1, 2, 2, 3))):
        rank = rng.choice((0, 1, 2, 2, 3, 3, 4, 5)) if k else rng.choice((2, 3, 4, 4))
        shape: list[Any] = extents(rng, rank)
        names: dict[int, str] = {}
        if len(g.sizes) > 1 and rank:
            form = rng.random()
            names = {0: "n"} if form < 0.7 else {rank - 1: "m"}
            names = {0: "n", rank - 1: "m"} if form > 0.85 and rank > 1 else names
        shapes = [[sizes[names[d]][b] if d in names else e for d, e in enumerate(shape)]
                  for b in range(len(g.sizes))]  # fmt: skip
        g.input(shapes, main if rng.random() < 0.8 else rng.choice((*INTEGERS, "int64", "bool")))


def _finished(g: Graph, sizes: Mapping[str, Sequence[int]]) -> Model:
    """Return the model of a graph, with the values that nothing reads as outputs, and others."""
    from onnx import helper, numpy_helper

    rng = g.rng
    read = {name for node in g.nodes for name in _operands(node)}
    results = [v for v in g.values if v.origin == "node"]
    outputs = [v for v in results if v.name not in read and rng.random() < 0.9]
    outputs += [v for v in results if v not in outputs and rng.random() < 0.06]
    if not outputs:
        outputs = results[-1:] or [v for v in g.values if v.origin == "input"][:1]
    inputs = [v for v in g.values if v.origin == "input"]
    weights, nodes = [], []
    for value in (v for v in g.values if v.origin == "constant" and v.name in read):
        tensor = numpy_helper.from_array(value.arrays[0], value.name)
        if rng.random() < 0.15:
            nodes.append(helper.make_node("Constant", [], [value.name], value=tensor))
        else:
            weights.append(tensor)
    declared = rng.random() < 0.5
    symbols = {tuple(own): name for name, own in sizes.items()}
    graph = helper.make_graph(
        [*nodes, *g.nodes], "fuzz", [_entry(v, symbols) for v in inputs],
        [_entry(v, symbols) if declared else runtime.typed(v.name, v.arrays[0]) for v in outputs],
        weights,
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)],
                              ir_version=runtime.IR_VERSION)  # fmt: skip
    feeds = tuple({v.name: v.arrays[b] for v in inputs} for b in range(len(g.sizes)))
    return Model(proto, feeds)


def _entry(value: Value, symbols: Mapping[tuple[int, ...], str]) -> Any:
    """Return the declaration of an input or an output, with symbols where sizes vary."""
    sizes = zip(*(a.shape for a in value.arrays), strict=True)
    dims = [own[0] if len(set(own)) == 1 else symbols.get(own) for own in sizes]
    return runtime.entry(value.name, value.arrays[0], dims)


def _operands(node: Any) -> list[str]:
    """Return the names that a node reads, also in its branches."""
    inner = [n for a in node.attribute if a.HasField("g") for n in a.g.node]
    return [*node.input, *(name for n in inner for name in _operands(n))]
