"""Random chains of Relax operators over tensors with symbolic dimensions, legalised and fused.

A maker takes a builder and a value and gives an expression of it, or None if it has no use for it.
Symbolic extents may stand at any axis, also where an operator reduces, slides or flips.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tvm import relax, tirx

from . import elementwise_makers, reduction_makers
from .graph_builder import Graph, rank_of

MAKERS = [*elementwise_makers.MAKERS, *reduction_makers.MAKERS]


def module(rng: Random, steps: int) -> Any:
    """A Relax module whose ``main`` is a random chain of so many operators."""
    g = Graph(rng)
    with g.bb.function("main"):
        with g.bb.dataflow():
            x = g.input(g.shape(g.pick(1, 2, 2, 3, 3, 4)))
            done = 0
            for _ in range(60):
                x, more = _step(g, x)
                done += more
                if done >= steps:
                    break
            out = g.bb.emit_output(x)
        g.bb.emit_func_output(out, g.inputs)
    return g.bb.get()


def functions(rng: Random) -> list[tuple[str, Any]]:
    """The PrimFuncs of one random chain, with what they are called."""
    steps = rng.choice((1, 1, 2, 2, 3, 5))
    mod = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(module(rng, steps)))
    if steps > 1 and rng.random() < 0.8:
        mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    return [(g.name_hint, f) for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]


def _step(g: Graph, x: Any) -> tuple[Any, bool]:
    makers, weights = [f for _, f in MAKERS], [w for w, _ in MAKERS]
    known = len(g.inputs)
    try:
        made = g.rng.choices(makers, weights)[0](g, x)
        if made is None or rank_of(made) == 0:
            del g.inputs[known:]
            return x, False
        return g.bb.emit(made), True
    except Exception:
        del g.inputs[known:]
        return x, False
