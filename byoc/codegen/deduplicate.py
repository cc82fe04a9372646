"""Deduplication of bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from ...analysis.support.ir.rewrite_functions import rewrite_functions

#: Returns a key that is equal for bindings of equal values; None for values to keep.
Key = Callable[[Any], tuple[Any, ...] | None]


def deduplicate(mod: Any, key: Key) -> Any:
    """The module without bindings that repeat the key of an earlier one; ``mod`` is not changed.

    Before: a = f(x);  b = f(x);  c = g(a, b)
    After:  a = f(x);  c = g(a, a)
    """
    return rewrite_functions(mod, _Deduplicate(mod, key))


@relax.expr_functor.mutator
class _Deduplicate(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, key: Key) -> None:
        super().__init__(mod)
        self.key = key
        self.values: dict[tuple[Any, ...], Any] = {}

    def visit_seq_expr_(self, expr: Any) -> Any:
        """Forget the bindings of a branch: they are not in scope after it."""
        before = dict(self.values)
        out = super().visit_seq_expr_(expr)
        self.values = before
        return out

    def visit_dataflow_block_(self, block: Any) -> Any:
        before = dict(self.values)
        out = super().visit_dataflow_block_(block)
        self.values = before
        return out

    def visit_var_binding_(self, binding: Any) -> None:
        key = self.key(binding.value)
        if key in self.values and not self._is_output(binding.var):
            self.set_var_remap(binding.var, self.values[key])
            return
        super().visit_var_binding_(binding)
        if key is not None:
            self.values[key] = self.visit_expr(binding.var)

    def _is_output(self, var: Any) -> bool:
        """Whether a variable is an output of the current dataflow block."""
        inside = self.builder_.current_block_is_dataflow()
        return inside and not isinstance(var, relax.DataflowVar)
