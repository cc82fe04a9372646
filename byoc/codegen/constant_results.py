"""Results that are constants of the library are copied in each call.

    Before: return (lv, metadata["ir.GenericConst"][0])
    After:  own = R.call_tir(own_constant, (metadata["ir.GenericConst"][0],)); return (lv, own)

A constant is loaded once, and a session hands out tensors as the virtual machine returns them. So a
caller that wrote to such a result, as to a cache that starts with zeros, changed the results of all
later requests, also those of other threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax, te

from ...analysis.lifting.tir.node import items
from ...analysis.support.ir.rewrite_functions import with_attrs
from ...analysis.support.tvm_compat import GenericConst, array_of
from ..prepare.mutation.bindings import resolved

Known = Mapping[Any, Any]


def with_copied_constants(mod: Any) -> Any:
    """Return a module whose functions and branches return no constants; ``mod`` stays."""
    owner = _Owner(relax.BlockBuilder(mod))
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and isinstance(func.body, relax.SeqExpr):
            body = owner.sequence(func.body)
            if not body.same_as(func.body):
                new = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs,
                                     func.span)  # fmt: skip
                owner.builder.update_func(gvar, new)
    return with_attrs(owner.builder.get(), mod)


class _Owner:
    """Rewrites sequences; the builder's module gets the PrimFuncs that copy."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def sequence(self, seq: Any) -> Any:
        """Return a sequence whose result has no constants; the same one if it has none."""
        known = {b.var: b.value for block in seq.blocks for b in block.bindings
                 if isinstance(b, relax.VarBinding)}  # fmt: skip
        blocks = [self._with_branches(block) for block in seq.blocks]
        more: list[Any] = []
        result = self._owned(seq.body, seq.body, known, more)
        if more:
            blocks.append(relax.BindingBlock(more))
        elif all(new.same_as(old) for new, old in zip(blocks, seq.blocks, strict=True)):
            return seq
        return relax.SeqExpr(blocks, result)

    def _with_branches(self, block: Any) -> Any:
        if not any(isinstance(getattr(b, "value", None), relax.If) for b in block.bindings):
            return block
        return relax.BindingBlock([self._binding(b) for b in block.bindings])

    def _binding(self, binding: Any) -> Any:
        choice = getattr(binding, "value", None)
        if not isinstance(choice, relax.If):
            return binding
        branches = map(self.sequence, (choice.true_branch, choice.false_branch))
        chosen = self.builder.normalize(relax.If(choice.cond, *branches))
        return relax.VarBinding(binding.var, chosen)

    def _owned(self, place: Any, value: Any, known: Known, more: list[Any]) -> Any:
        """Return a value with copies of its constants; ``more`` gets the bindings.

        Args:
            place: How to name the value here: variables of a dataflow block are not visible.
            value: What it is.
            known: The values of variables.
            more: The bindings, to which this adds.
        """
        value = resolved(value, known)
        if isinstance(value, GenericConst):
            return self._copied(value, more)
        if not _holds_constant(value, known):
            return place
        parts = []
        for k, field in enumerate(items(value.fields)):
            at = place.fields[k] if isinstance(place, relax.Tuple) else None
            if at is None and not isinstance(resolved(field, known), GenericConst):
                at = self._bound(relax.TupleGetItem(place, k), more)
            parts.append(self._owned(at, field, known, more))
        return self._bound(relax.Tuple(parts), more)

    def _copied(self, constant: Any, more: list[Any]) -> Any:
        if any(extent == 0 for extent in array_of(constant).shape):
            return constant
        call = self.builder.call_te(_copy, constant, primfunc_name_hint="own_constant")
        return self._bound(call, more)

    def _bound(self, value: Any, more: list[Any]) -> Any:
        value = self.builder.normalize(value)
        var = relax.Var("own", value.ty)
        more.append(relax.VarBinding(var, value))
        return var


def _holds_constant(value: Any, known: Known) -> bool:
    """Return whether a value is a tuple with a constant in it."""
    if not isinstance(value, relax.Tuple):
        return False
    parts = [resolved(field, known) for field in items(value.fields)]
    return any(isinstance(p, GenericConst) or _holds_constant(p, known) for p in parts)


def _copy(x: Any) -> Any:
    return te.compute(x.shape, lambda *places: x(*places), name="own")
