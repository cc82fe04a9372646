"""Replace calls of PrimFuncs by calls of others, which are added to the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from .....analysis.lifting.tir.node import NodeDict
from .....analysis.support.ir.call_ops import is_call_tir
from .....analysis.support.ir.rewrite_functions import rewrite_functions

#: What replaces a call: gets the builder of the function's body, and the call.
Replacement = Callable[[Any, Any], Any]


def replace_calls(mod: Any, added: Callable[[Any], NodeDict[Replacement]]) -> Any:
    """Return the module with other calls, without the functions that nothing calls any more.

    Args:
        mod: A module; it is not changed.
        added: Adds PrimFuncs to a builder of Relax; returns the replacements by the GlobalVars of
            those that they replace.
    """
    return _Writer(mod).module(added)


@relax.expr_functor.mutator
class _Writer(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls, and adds the PrimFuncs that are called instead."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod = mod
        self.replacements: NodeDict[Replacement] = NodeDict()

    def module(self, added: Callable[[Any], NodeDict[Replacement]]) -> Any:
        self.replacements = added(self.builder_)
        return relax.transform.DeadCodeElimination()(rewrite_functions(self.mod, self))

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call):
            return call
        replacement = self.replacements.get(call.args[0])
        return call if replacement is None else replacement(self.builder_, call)
