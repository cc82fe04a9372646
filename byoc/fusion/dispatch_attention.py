"""Replace attention by one operator, which backends take.

    Before: s = R.call_tir(cls.f0, (q, k)); …; o = R.call_tir(cls.f5, (p, v))
    After:  o = R.nn.attention(q, k, v, scale=0.125)

Two products around a softmax are a candidate, with what moves, scales and masks in between. Its
calls are fused to one PrimFunc on the side. It becomes attention only if that PrimFunc is certified
as such, so no step has to be one of attention alone. Lengths may be symbolic. Grouped heads, capped
scores and a softmax in another dtype make it `relax.nn.grouped_attention`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis import Chain, OpInfo, Refusal, op_info
from ...analysis.chain import Chains
from ...analysis.composites.attention import GROUPED
from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.proposal.call_op import NotBuilt
from ...analysis.support.ir.call_ops import is_call_tir
from ...layout.graph.side_effects import SideEffects
from ...layout.graph.unused import without_unused
from ..prepare.raising.raise_ops import same_type
from .fused_group import FusedGroup, fused, operator_call

ATTENTION = ("relax.nn.attention", GROUPED)
SOFTMAX = "relax.nn.softmax"
PRODUCTS = frozenset({"relax.matmul", TRANSPOSED_MATMUL, "relax.einsum"})
MOVES = frozenset({"relax.permute_dims", "relax.reshape", "relax.expand_dims", "relax.squeeze"})
#: What repeats heads of keys and values for those of queries.
REPEATS = frozenset({"relax.repeat", "relax.broadcast_to"})
#: What may be between the first product and the softmax.
BETWEEN = MOVES | {
    "relax.multiply", "relax.divide", "relax.add", "relax.subtract", "relax.astype", "relax.where",
    "relax.minimum", "relax.maximum", "relax.clip", "relax.tanh", "relax.trilu", "relax.tril",
}  # fmt: skip
#: The rank of the operands and the result of attention.
RANK = 4


def dispatch_attention(mod: Any) -> Any:
    """Return a module in which certified attention is one operator.

    Args:
        mod: A lowered module; it is not changed.

    Raises:
        TypeError: `mod` is not an IRModule.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"DispatchAttention: expected a tvm.IRModule, got {type(mod).__name__}")
    chains = _KnownOperators(mod)
    writer = _AttentionReplacer(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            writer.replaced = NodeDict()
            for var, call in _attentions(mod, func, chains):
                writer.replaced[var] = call
            new = relax.analysis.remove_all_unused(writer.visit_expr(func))
            writer.builder_.update_func(gvar, new)
    if not writer.count:
        return mod
    return without_unused(writer.builder_.get(), mod)


class _KnownOperators:
    """The operators of the PrimFuncs of a module; each is analysed once."""

    def __init__(self, mod: Any) -> None:
        self.mod, self._chains = mod, Chains()
        self._known: NodeDict[Chain | Refusal] = NodeDict()

    def name(self, call: Any) -> str:
        """The operator of a call of a PrimFunc that is one operator; empty for other calls."""
        if not is_call_tir(call):
            return ""
        func = self.mod[call.args[0]]
        if func not in self._known:
            self._known[func] = self._chains(func)
        chain = self._known[func]
        if not isinstance(chain, Chain) or len(chain.steps) != 1:
            return ""
        return chain.steps[0].operator.name


def _attentions(mod: Any, func: Any, chains: _KnownOperators) -> Iterator[tuple[Any, Any]]:
    """The variables that are attention, with the calls to bind them to."""
    eras = SideEffects(mod).eras(func)
    for block in func.body.blocks:
        if not isinstance(block, relax.DataflowBlock):
            continue
        reader = _BlockReader(block, _uses(func), chains)
        taken: set[int] = set()
        for k, binding in enumerate(block.bindings):
            if reader.name(binding) not in (SOFTMAX, *ATTENTION):
                continue
            for group in reader.groups(k):
                own = set(group) & reader.own
                at_once = len({eras[block.bindings[n].var] for n in group}) == 1
                call = None if taken & own or not at_once else _certified(mod, block, group)
                if call is not None:
                    taken |= own
                    yield block.bindings[group[-1]].var, call
                    break


def _certified(mod: Any, block: Any, group: Sequence[int]) -> Any:
    """The call of attention that computes the last value of some bindings; None if none does."""
    bindings = FusedGroup(tuple(block.bindings[k] for k in group))
    func = fused(mod, bindings)
    info = None if func is None else op_info(func)
    if not isinstance(info, OpInfo) or info.name not in ATTENTION:
        return None
    if info.certificate.kind not in ("rebuilt", "proved"):
        return None
    try:
        call = relax.BlockBuilder().normalize(operator_call(info, bindings))
    except NotBuilt:
        return None
    return call if same_type(call.ty, bindings.result.ty) else None


def _uses(func: Any) -> NodeDict[int]:
    """How often each variable is read."""
    count: NodeDict[int] = NodeDict()

    def read(var: Any) -> None:
        count[var] = (count.get(var) or 0) + 1

    for block in func.body.blocks:
        for binding in block.bindings:
            tvm_ffi.structural_walk(getattr(binding, "value", binding), (relax.Var, read))
    tvm_ffi.structural_walk(func.body.body, (relax.Var, read))
    return count


@dataclass(frozen=True)
class _BlockReader:
    """The bindings of a dataflow block, by number, with what they compute and who reads them."""

    block: Any
    uses: NodeDict[int]
    chains: _KnownOperators

    @cached_property
    def own(self) -> set[int]:
        """The bindings that at most one call reads; others stay if they are in a candidate."""
        return {k for k, b in enumerate(self.block.bindings) if (self.uses.get(b.var) or 0) <= 1}

    def name(self, binding: Any) -> str:
        return self.chains.name(getattr(binding, "value", None))

    def groups(self, softmax: int) -> Iterator[list[int]]:
        """The candidates around a softmax or attention, the longest first."""
        if self.name(self.block.bindings[softmax]) in ATTENTION:
            yield [softmax]
            return
        scores = self.scores(softmax)
        weighted = self.weighted(softmax)
        if scores is None or weighted is None:
            return
        inner = {*scores, softmax, *weighted}
        for moves in (MOVES | REPEATS, MOVES):
            operands = [self.moved(scores[0], k, moves) for k in range(2)]
            side = [self.moved(weighted[-1], k, moves) for k in range(2)]
            for values in (m for m in side if not set(m) & inner):
                for after in self.after(weighted[-1]):
                    yield sorted({*inner, *operands[0], *operands[1], *values, *after})

    def arguments(self, k: int) -> list[Any]:
        return list(self.block.bindings[k].value.args[1].fields)

    def producer(self, var: Any) -> int | None:
        """The binding of a variable that nothing else reads."""
        k = self.source(var)
        return k if k in self.own else None

    def source(self, var: Any) -> int | None:
        """The binding of a variable."""
        if not isinstance(var, relax.Var):
            return None
        return next((k for k, b in enumerate(self.block.bindings) if b.var.same_as(var)), None)

    def user(self, k: int) -> int | None:
        """The only binding that reads the result of another one."""
        var = self.block.bindings[k].var
        if self.uses.get(var) != 1:
            return None
        for later in range(k + 1, len(self.block.bindings)):
            call: Any = getattr(self.block.bindings[later], "value", None)
            if is_call_tir(call) and any(a.same_as(var) for a in call.args[1].fields):
                return later
        return None

    def scores(self, k: int) -> list[int] | None:
        """The bindings from the first product to the one before a softmax, in order."""
        for argument in self.arguments(k):
            before = self.producer(argument)
            name = "" if before is None else self.name(self.block.bindings[before])
            if before is not None and name in PRODUCTS:
                return [before]
            if before is not None and name in BETWEEN:
                found = self.scores(before)
                if found is not None:
                    return [*found, before]
        return None

    def weighted(self, k: int) -> list[int] | None:
        """The bindings from the one after a softmax to the second product."""
        after = self.user(k)
        name = "" if after is None else self.name(self.block.bindings[after])
        if after is None or name not in PRODUCTS | MOVES | {"relax.astype"}:
            return None
        if name in PRODUCTS:
            return [after]
        found = self.weighted(after)
        return None if found is None else [after, *found]

    def moved(self, product: int, place: int, moves: frozenset[str]) -> list[int]:
        """What moves an operand of a product, from the outermost value of four axes."""
        arguments = self.arguments(product)
        found: list[int] = []
        whole: list[int] = []
        var: Any = arguments[place] if place < len(arguments) else None
        while (k := self.source(var)) is not None:  # a move that is read elsewhere too is repeated
            if self.name(self.block.bindings[k]) not in moves:
                break
            found = [k, *found]
            var = self.arguments(k)[0]
            if len(var.ty.shape.values) == RANK:
                whole = found
        return whole

    def after(self, product: int) -> Iterator[list[int]]:
        """What moves the result of a product, the longest first."""
        found: list[list[int]] = [[]]
        k: int | None = product
        while k is not None and (k := self.user(k)) is not None:
            if self.name(self.block.bindings[k]) not in MOVES:
                break
            found.append([*found[-1], k])
        yield from reversed(found)


@relax.expr_functor.mutator
class _AttentionReplacer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces the last call of each attention by the operator."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.replaced: NodeDict[Any] = NodeDict()
        self.count = 0

    def visit_var_binding_(self, binding: Any) -> None:
        call = self.replaced.get(binding.var)
        if call is None:
            super().visit_var_binding_(binding)
            return
        self.count += 1
        new = self.builder_.normalize(self.visit_expr(call))
        local = isinstance(binding.var, relax.DataflowVar)
        emit = self.builder_.emit if local else self.builder_.emit_output
        self.set_var_remap(binding.var, emit(new))
