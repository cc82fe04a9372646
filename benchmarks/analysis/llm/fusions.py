"""Fusions that MLC-LLM's passes make by name, and those of opinfo's passes without names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax

from benchmarks.analysis.llm.read_prim_funcs import PRODUCTS
from opinfo import transform
from opinfo.analysis import Chain
from opinfo.analysis.chain import Chains
from opinfo.analysis.composites.grouped import DEQUANTIZE
from opinfo.analysis.composites.products import TRANSPOSED_MATMUL
from opinfo.analysis.support.ir.call_ops import is_call_tir
from opinfo.testing.strip import strip_module

#: The steps of a fused call with the dtypes of their buffers.
Fused = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass
class Fusions:
    """The calls that one pass fuses in one model.

    Attributes:
        kind: What is fused.
        by_name: The calls that MLC-LLM's passes fuse.
        both: Those that opinfo's pass also fuses.
        more: Those that only opinfo's pass fuses.
        missing: Those that only MLC-LLM's passes fuse.
    """

    kind: str
    by_name: int
    both: int
    more: list[str]
    missing: list[str]


def fusions(plain: Any, legalised: Any, fused: Any, last: Any) -> list[Fusions]:
    """Compare the passes on one model; see `mlc_pipeline.PHASES` for the modules."""
    pairs: list[tuple[str, Any, Any, Callable[[Any], Any], Callable[[Any], bool]]] = [
        ("transpose and product", plain, legalised, transform.FuseTransposeMatmul(), _transposed),
        ("dequantise and its use", fused, last, transform.FuseDequantize(), _dequantized),
    ]
    out = []
    for kind, before, after, run, counts in pairs:
        there = calls(after, counts)
        stripped = strip_module(before)
        already = calls(stripped, counts)
        ours = calls(run(stripped), counts)
        there, ours = there - already, ours - already
        both = there & ours
        out.append(Fusions(kind, there.total(), both.total(), _texts(ours - both),
                           _texts(there - both)))  # fmt: skip
    return out


def _transposed(chain: Chain) -> bool:
    return chain.steps[0].operator.name == TRANSPOSED_MATMUL


def _dequantized(chain: Chain) -> bool:
    names = [step.operator.name for step in chain.steps]
    return DEQUANTIZE in names and bool({*PRODUCTS, "relax.take"} & set(names))


def calls(mod: Any, counts: Callable[[Chain], bool]) -> Counter[Fused]:
    """Return the calls of PrimFuncs that compute such a chain, by their operators and types."""
    chains = Chains()
    known: dict[str, Fused | None] = {}
    out: Counter[Fused] = Counter()

    def one(expr: Any) -> None:
        if not is_call_tir(expr):
            return
        name = expr.args[0].name_hint
        if name not in known:
            chain = chains(mod[expr.args[0]])
            use = isinstance(chain, Chain) and counts(chain)
            known[name] = _described(chain) if use else None
        if (fused := known[name]) is not None:
            out[fused] += 1

    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, one)
    return out


def _described(chain: Any) -> Fused:
    return tuple((s.operator.name, _dtypes(s.shapes)) for s in chain.steps)


def _dtypes(shapes: tuple[str, ...]) -> tuple[str, ...]:
    """The dtypes of the buffers: names of sizes and orders of parameters differ in modules."""
    return tuple(sorted(s.partition("[")[0].split(" ")[-1] for s in shapes))


def _texts(found: Counter[Fused]) -> list[str]:
    return [" ".join(name.removeprefix("relax.") for name, _ in key)
            for key in found.elements()]  # fmt: skip
