"""Fuse a dequantisation by group into the operator that uses it.

    Before: w = R.call_tir(cls.f, (words, scale)); y = R.call_tir(cls.g, (x, w))
    After:  y = R.call_tir(cls.fused_f_g, (words, scale, x))

The weight is then never stored in full. ``f`` must be recognised as a dequantisation, perhaps
transposed or reshaped, and ``g`` as a product of the weight with elementwise steps after it, a
gather of its rows, or a move of its elements. Names do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import tvm
from tvm import relax, tirx
from tvm.relax.dpl import GlobalVarPattern, TuplePattern, is_op, wildcard

from ...analysis import Chain, Refusal
from ...analysis.chain import Chains
from ...analysis.chain.chain_result import Step
from ...analysis.composites.grouped import DEQUANTIZE
from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import is_call_tir
from ...layout.graph.side_effects import SideEffects
from ...layout.graph.unused import without_unused

MOVES = frozenset({"relax.permute_dims", "relax.reshape"})
PRODUCTS = frozenset({"relax.matmul", TRANSPOSED_MATMUL, "relax.einsum"})
GATHER = "relax.take"
POINTWISE = frozenset({"kElemWise", "kBroadcast"})

#: What uses a weight: a product, which keeps its stages, or a copy, into which they are inlined.
Use = Literal["product", "copy"]
#: Two PrimFuncs, and the argument of the second that is the result of the first.
Pair = tuple[str, str, int]


def fuse_dequantize(mod: Any, fits: Callable[[Any], bool] | None = None) -> Any:
    """Return a module in which dequantisations by group are fused into their only use.

    Args:
        mod: A lowered module, before or after ``FuseTIR``; it is not changed.
        fits: Whether to fuse into a PrimFunc that multiplies; None for all.

    Raises:
        TypeError: `mod` is not an IRModule.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"FuseDequantize: expected a tvm.IRModule, got {type(mod).__name__}")
    chains = _KnownChains()
    for use in ("copy", "product"):  # a weight may be moved before it is multiplied
        calls = {(pair, sizes): None for pair, sizes, found in _uses(mod, chains) if found == use
                 and (fits is None or use == "copy" or fits(mod[pair[1]]))}  # fmt: skip
        if not calls:
            continue
        allowed = frozenset(pair for pair, _ in calls)
        patterns = [_pattern(pair[2], sizes, allowed) for pair, sizes in calls]
        before = {g.name_hint for g in mod.get_global_vars()}
        fused = relax.transform.FuseOpsByPattern(patterns, bind_constants=False)(mod)
        fused = relax.transform.FuseTIR()(fused)
        mod = without_unused(_inlined(fused, before) if use == "copy" else fused, mod)
    return mod


#: Numbers of arguments: of the first call, of the second, and whether they have scalars.
Sizes = tuple[int, int, bool, bool]


def _uses(mod: Any, chains: _KnownChains) -> Iterator[tuple[Pair, Sizes, Use]]:
    """The pairs of calls in a module that may be fused."""
    found: dict[tuple[Pair, Sizes], Use] = {}
    effects = SideEffects(mod)
    apart = set[Pair]()  # something may be written between two such calls
    for func in (f for _, f in mod.functions_items() if isinstance(f, relax.Function)):
        eras = effects.eras(func)
        bindings = [b for block in func.body.blocks for b in block.bindings]
        values = {b.var: b.value for b in bindings if is_call_tir(getattr(b, "value", None))}
        once = _read_once(func)
        for var, second in values.items():
            for place, arg in enumerate(second.args[1].fields):
                first = values.get(arg)
                if first is None:
                    continue
                pair = (first.args[0].name_hint, second.args[0].name_hint, place)
                if eras[arg] != eras[var]:
                    apart.add(pair)
                elif arg in once and (use := _use(mod, first, second, place, chains)) is not None:
                    found[pair, _sizes(first, second)] = use
    yield from ((pair, sizes, use) for (pair, sizes), use in found.items() if pair not in apart)


def _read_once(func: Any) -> set[Any]:
    """The variables that occur once in a function, beside their definition."""
    count: Counter[Any] = Counter()

    def visit(expr: Any) -> None:
        fields = expr.fields if isinstance(expr, relax.Tuple) else getattr(expr, "args", ())
        values = [*fields, getattr(expr, "tuple_value", None)]
        count.update(v for v in values if isinstance(v, relax.Var))

    relax.analysis.post_order_visit(func, visit)
    for block in func.body.blocks:
        count.update(
            b.value for b in block.bindings if isinstance(getattr(b, "value", 0), relax.Var)
        )
    count.update([func.body.body])
    return {v for v, times in count.items() if times == 1}


def _sizes(first: Any, second: Any) -> Sizes:
    arguments = [len(call.args[1].fields) for call in (first, second)]
    return *arguments, len(first.args) > 2, len(second.args) > 2  # type: ignore[return-value]


def _use(mod: Any, first: Any, second: Any, place: int, chains: _KnownChains) -> Use | None:
    """How a call uses the dequantised result of another one; None if it must not be fused."""
    if not _has_integers(mod[first.args[0]]):
        return None
    producer = chains.of(mod[first.args[0]])
    if producer is None or len(producer.outputs) != 1:
        return None
    weight, *moves = producer.steps
    if weight.operator.name != DEQUANTIZE or any(s.operator.name not in MOVES for s in moves):
        return None
    consumer = chains.of(mod[second.args[0]])
    if consumer is None or len(consumer.outputs) != 1:
        return None
    anchor, *after = consumer.steps
    if sum(step.buffers.count(place) for step in consumer.steps) != 1:
        return None
    name, reads = anchor.operator.name, anchor.operands
    if name in PRODUCTS and place in reads and all(map(_is_pointwise, after)):
        return "product"
    if name in MOVES or (name == GATHER and reads[:1] == (place,)):
        return "copy" if place in reads and all(map(_is_pointwise, after)) else None
    return None


def _has_integers(func: Any) -> bool:
    """Whether a parameter may hold words: what has only floats is not analysed."""
    dtypes = [str(getattr(getattr(p, "ty", None), "dtype", "")) for p in func.params]
    return any("int" in d or "float8" in d for d in dtypes)


class _KnownChains:
    """The chains of PrimFuncs; each is analysed once."""

    def __init__(self) -> None:
        self._chains, self._known = Chains(), NodeDict[Chain | Refusal]()

    def of(self, func: Any) -> Chain | None:
        """Return the operators of a PrimFunc, or None."""
        if func not in self._known:
            self._known[func] = self._chains(func)
        chain = self._known[func]
        return chain if isinstance(chain, Chain) and not chain.inplace_indices else None


def _is_pointwise(step: Step) -> bool:
    return step.info.kind in POINTWISE


def _pattern(place: int, sizes: Sizes, allowed: frozenset[Pair]) -> Any:
    """The pattern of two calls, the first one used by nothing else."""
    count, count_after, scalars, scalars_after = sizes

    def call(args: list[Any], more: bool) -> Any:
        rest = [wildcard()] if more else []
        return is_op("relax.call_tir")(
            GlobalVarPattern(), TuplePattern(args), *rest, add_constraint=False
        )

    first = call([wildcard() for _ in range(count)], scalars)
    args = [first if k == place else wildcard() for k in range(count_after)]
    second = call(args, scalars_after)

    def check(context: Any) -> bool:
        a, b = (context.annotated_expr[k] for k in ("first", "second"))
        names = (a.args[0].name_hint, b.args[0].name_hint, place)
        used = context.var_usages.get(b.args[1].fields[place], ())
        return names in allowed and len(used) == 1

    return "opinfo.dequantize", second, {"first": first, "second": second}, check


def _inlined(mod: Any, before: set[str]) -> Any:
    """The module with one block in each new PrimFunc, so that only what is read is computed."""
    out = {}
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and gvar.name_hint not in before:
            schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func}).clone())
            *inner, _ = schedule.get_child_blocks(schedule.get_sblock("root"))
            for block in inner:
                schedule.compute_inline(block)
            func = (
                schedule.mod["main"].with_attrs(func.attrs) if func.attrs else schedule.mod["main"]
            )
        out[gvar] = func
    return tvm.IRModule(out, attrs=mod.attrs, global_infos=mod.global_infos)
