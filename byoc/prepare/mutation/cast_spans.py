"""Keep the nodes of the model that casts in branches come from, which passes of TVM drop.

CanonicalizeBindings and ToNonDataflow replace variables in branches by others without a span.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import relax

from ....analysis.lifting.tir.node import NodeDict
from ....analysis.support.ir.rewrite_functions import replaced_functions
from ....analysis.support.origin import span_of


def with_spans_of(before: Any, after: Any) -> Any:
    """Return a module whose casts in branches have the spans of equal ones of an earlier module.

    Args:
        before: The module before a pass.
        after: The module after it, which is not changed.
    """
    old = {gvar.name_hint: list(_casts(func.body, False)) for gvar, func in
           before.functions_items() if isinstance(func, relax.Function)}  # fmt: skip
    names = {func: gvar.name_hint for gvar, func in after.functions_items()}

    def replaced(func: Any) -> Any:
        casts = old.get(names[func]) if isinstance(func, relax.Function) else None
        return _function(func, casts) if casts else func

    return replaced_functions(after, replaced) if any(old.values()) else after


def _function(func: Any, old: list[Any]) -> Any:
    """Return a function with the spans of the first equal cast that is left for each of its own."""
    spans, left = NodeDict[Any](), [cast for cast in old if span_of(cast) is not None]
    for cast in _casts(func.body, False):
        place = next((k for k, known in enumerate(left)
                      if tvm_ffi.structural_equal(known.ty, cast.ty)), None)  # fmt: skip
        if place is not None:
            spans[cast.var] = span_of(left.pop(place))
    return _Spans(spans).visit_expr(func)


def _casts(seq: Any, inside: bool) -> Iterator[Any]:
    """Yield the casts in branches."""
    for binding in (b for block in seq.blocks for b in block.bindings):
        if isinstance(binding.value, relax.If):
            yield from _casts(binding.value.true_branch, True)
            yield from _casts(binding.value.false_branch, True)
        elif inside and isinstance(binding, relax.MatchCast):
            yield binding


@relax.expr_functor.mutator
class _Spans(relax.PyExprMutator):  # type: ignore[misc]
    """Gives spans to variables."""

    def __init__(self, spans: NodeDict[Any]) -> None:
        super().__init__()
        self.spans = spans

    def visit_var_def_(self, var: Any) -> Any:
        return type(var)(var.name, var.ty, self.spans[var]) if var in self.spans else var

    visit_dataflow_var_def_ = visit_var_def_
