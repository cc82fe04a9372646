"""Fuse transposes into the products that read them.

    Before: t = R.call_tir(cls.f, (w,)); y = R.call_tir(cls.g, (x, t))       y = x @ transpose(w)
    After:  y = R.call_tir(cls.g_1, (x, w))                                  y[i, j] = Σ x[i] w[j]

``f`` is recognised as ``permute_dims`` that swaps the last two axes, and ``g`` as a product with
perhaps elementwise steps after it. The product is rewritten to read the stored operand,
which is proved, with each sum in its order. So results are bit-equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from ...analysis import Chain, Refusal
from ...analysis.chain import Chains
from ...analysis.composites.products import TRANSPOSED_MATMUL
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import is_call_tir
from ...layout.apply.cancel import may_leave_block
from ...layout.graph.side_effects import SideEffects
from ...layout.graph.unused import without_unused
from ...layout.model.layout import Layout
from ...layout.rewrite.rewrite import Rewriter, Rewritten

PRODUCTS = frozenset({"relax.matmul", TRANSPOSED_MATMUL})
POINTWISE = frozenset({"kElemWise", "kBroadcast"})


def fuse_transpose_matmul(mod: Any, fits: Callable[[Any], bool] | None = None) -> Any:
    """Return a module in which products read their transposed operands as they are stored.

    Args:
        mod: A lowered module; it is not changed.
        fits: Whether to rewrite a PrimFunc that multiplies; None for all.

    Raises:
        TypeError: `mod` is not an IRModule.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"FuseTransposeMatmul: expected a tvm.IRModule, got {type(mod).__name__}")
    fuser, effects = _TransposeFuser(mod, fits), SideEffects(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            fuser.eras = effects.eras(func) if effects.of_function(func) else None
            new = relax.analysis.remove_all_unused(fuser.visit_expr(func))
            fuser.builder_.update_func(gvar, new)
    if not fuser.count:
        return mod
    return without_unused(fuser.builder_.get(), mod)


@relax.expr_functor.mutator
class _TransposeFuser(relax.PyExprMutator):  # type: ignore[misc]
    """Rewrites the calls of products.

    Attributes:
        eras: How many calls before each variable may have written into values, so that a later
            read may differ; None if no call does.
        era: That of the binding that is visited; None inside of a branch.
        count: The number of calls that were rewritten.
    """

    def __init__(self, mod: Any, fits: Callable[[Any], bool] | None) -> None:
        super().__init__(mod)
        self.fits = fits
        self.mod, self.count = mod, 0
        self.eras: NodeDict[int] | None = None
        self.era: int | None = None
        self.chains, self.rewriter = Chains(), Rewriter()
        self.known: NodeDict[Chain | Refusal] = NodeDict()

    def visit_var_binding_(self, binding: Any) -> None:
        before = self.era
        self.era = None if self.eras is None else self.eras.get(binding.var)
        super().visit_var_binding_(binding)
        self.era = before

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call) or not (self.fits is None or self.fits(self.mod[call.args[0]])):
            return call
        arguments = list(call.args[1].fields)
        sources = {k: s for k, a in enumerate(arguments) if (s := self.transposed(a)) is not None}
        places = [k for k in sources if self.multiplied(call.args[0], k)]
        func = self.rewritten(call.args[0], places) if places else None
        if func is None:
            return call
        self.count += 1
        gvar = self.builder_.add_func(func, call.args[0].name_hint)
        read = [sources[k] if k in places else a for k, a in enumerate(arguments)]
        return relax.call_tir(gvar, relax.Tuple(read), out_ty=call.ty)

    def transposed(self, value: Any) -> Any:
        """The value of which a variable is the transpose; None if it is none."""
        bound: Any = self.lookup_binding(value) if isinstance(value, relax.Var) else None
        if not is_call_tir(bound) or len(bound.args[1].fields) != 1:
            return None
        source = bound.args[1].fields[0]
        if self.may_differ(value) or may_leave_block(source, value):
            return None
        chain = self.chain(bound.args[0])
        if chain is None or chain.names != ("relax.permute_dims",):
            return None
        rank = len(source.ty.shape)
        axes = chain.steps[0].attrs["axes"]
        order = list(range(rank))[::-1] if axes is None else [int(a) % rank for a in axes]
        return source if order == _swapped(rank) else None

    def may_differ(self, value: Any) -> bool:
        """Whether something may be written between the definition of a variable and here."""
        return self.eras is not None and (self.era is None or self.eras.get(value) != self.era)

    def multiplied(self, gvar: Any, place: int) -> bool:
        """Whether a parameter is a factor of a product, and nothing else."""
        chain = self.chain(gvar)
        if chain is None or len(chain.outputs) != 1:
            return False
        anchor, *after = chain.steps
        reads = sum(step.buffers.count(place) for step in chain.steps)
        return (
            anchor.operator.name in PRODUCTS
            and place in anchor.operands
            and reads == 1
            and all(step.info.kind in POINTWISE for step in after)
        )

    def rewritten(self, gvar: Any, places: list[int]) -> Any:
        """The product over operands as they are stored; None if that is not proved."""
        func = self.mod[gvar]
        layouts = [
            Layout.permuted(_swapped(len(p.ty.shape))) if k in places else None
            for k, p in enumerate(func.params)
        ]
        new = self.rewriter(func, layouts, "given")
        if not isinstance(new, Rewritten):
            return None
        chain = self.chains(new.func)  # a product whose operand moved may be no operator
        known = isinstance(chain, Chain) and chain.steps[0].operator.name in PRODUCTS
        return new.func.without_attr("global_symbol") if known else None

    def chain(self, gvar: Any) -> Chain | None:
        """The operators of a PrimFunc, or None; each is analysed once."""
        func = self.mod[gvar]
        if func not in self.known:
            self.known[func] = self.chains(func)
        chain = self.known[func]
        return chain if isinstance(chain, Chain) else None


def _swapped(rank: int) -> list[int]:
    """The order of axes with the last two swapped."""
    return [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else []
