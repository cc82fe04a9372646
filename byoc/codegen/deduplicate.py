"""Bindings of what is there already, left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

#: What two bindings of the same value have in common; None for what is always made anew.
Key = Callable[[Any], tuple[Any, ...] | None]


def once(mod: Any, key: Key) -> Any:
    """The module without bindings whose key one before them has; ``mod`` is not changed.

    Before: a = f(x);  b = f(x);  c = g(a, b)
    After:  a = f(x);  c = g(a, a)
    """
    return _Once(mod, key).written()


@relax.expr_functor.mutator
class _Once(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, key: Key) -> None:
        super().__init__(mod)
        self.mod, self.key = mod, key
        self.made: dict[tuple[Any, ...], Any] = {}

    def written(self) -> Any:
        for gvar, func in self.mod.functions.items():
            if isinstance(func, relax.Function):
                self.builder_.update_func(gvar, self.visit_expr(func))
        return self.builder_.get()

    def visit_seq_expr_(self, e: Any) -> Any:
        """What a branch made is not there behind it, nor in another function."""
        before = dict(self.made)
        made = super().visit_seq_expr_(e)
        self.made = before
        return made

    def visit_dataflow_block_(self, block: Any) -> Any:
        before = dict(self.made)
        made = super().visit_dataflow_block_(block)
        self.made = before
        return made

    def visit_var_binding_(self, b: Any) -> None:
        key = self.key(b.value)
        if key in self.made and not self._given(b.var):
            self.set_var_remap(b.var, self.made[key])
            return
        super().visit_var_binding_(b)
        if key is not None:
            self.made[key] = self.visit_expr(b.var)

    def _given(self, var: Any) -> bool:
        """Whether a dataflow block gives it to what is behind it."""
        inside = self.builder_.current_block_is_dataflow()
        return inside and not isinstance(var, relax.DataflowVar)
