"""The PrimFunc that TVM cannot build, for a message that names the node of the model."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.blocks.tir import dtype_of
from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.ir.nested_bindings import nested_bindings
from ...analysis.support.origin import node_of
from ...analysis.support.wording import last_line


class FailedBuild(ValueError):
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
        if (own := build_error(func, gvar.name_hint, target)) is not None:
            node = next(filter(None, map(node_of, _calls(mod, gvar))), "")
            reason, advice = (
                last_line(own).rstrip("."),
                "make its sizes static, or use other attributes",
            )
            if _computes_bools(func):
                reason, advice = "it adds or multiplies bools", "cast them to int32 first"
            return FailedBuild(
                f"{node and f'{node}: '}TVM cannot build {gvar.name_hint}: {reason}; {advice}"
            )
    return error


def build_error(func: Any, name: str, target: Any) -> Exception | None:
    """Return why TVM cannot build a PrimFunc alone; None if it can."""
    try:
        tvm.compile(tvm.IRModule({name: func.with_attr("global_symbol", name)}), target=target)
    except Exception as error:  # TVM's passes raise various types
        return error
    return None


def _computes_bools(func: Any) -> bool:
    """Return whether a PrimFunc adds or multiplies bools, for which LLVM has no instruction."""
    found: list[bool] = []

    def note(node: Any) -> None:
        found.append(dtype_of(node) == "bool")

    tvm_ffi.structural_walk(func.body, [(tirx.Add, note), (tirx.Mul, note)])
    return any(found)


def _calls(mod: Any, gvar: Any) -> list[Any]:
    """The bindings of the calls of a PrimFunc."""
    functions = (f for f in mod.functions.values() if isinstance(f, relax.Function))
    bindings = (b for f in functions for b in nested_bindings(f.body))
    return [b for b in bindings if is_call_tir(b.value)
            and b.value.args[0].name_hint == gvar.name_hint]  # fmt: skip
