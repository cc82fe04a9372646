"""The PrimFunc that TVM cannot build, for a message that names the node of the model."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx

from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.origin import node_of


class NotBuilt(ValueError):
    """TVM cannot build a PrimFunc; the message is one line."""


def why_not_built(mod: Any, target: Any, error: Exception) -> Exception:
    """Return an error that names the first PrimFunc of a module that TVM cannot build alone.

    Args:
        mod: The module that TVM cannot build.
        target: The target.
        error: The error of TVM, which is returned if each PrimFunc alone is built.
    """
    for gvar, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc):
            continue
        try:
            alone = func.with_attr("global_symbol", gvar.name_hint)
            tvm.compile(tvm.IRModule({gvar: alone}), target=target)
        except Exception as own:  # TVM's passes raise various types
            lines = [line.strip() for line in str(own).splitlines() if line.strip()]
            node = next(filter(None, map(node_of, _calls(mod, gvar))), "")
            reason = lines[-1].rstrip(".") if lines else type(own).__name__
            return NotBuilt(f"{node and f'{node}: '}TVM cannot build {gvar.name_hint}: {reason}; "
                            "make its sizes static, or use other attributes")  # fmt: skip
    return error


def _calls(mod: Any, gvar: Any) -> list[Any]:
    """Return the bindings of the calls of a PrimFunc."""
    todo = [f.body for f in mod.functions.values() if isinstance(f, relax.Function)]
    calls: list[Any] = []
    while todo:
        for binding in (b for block in todo.pop().blocks for b in block.bindings):
            value = binding.value
            if isinstance(value, relax.If):
                todo += [value.true_branch, value.false_branch]
            elif is_call_tir(value) and value.args[0].name_hint == gvar.name_hint:
                calls.append(binding)
    return calls
