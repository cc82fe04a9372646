"""The call that TVM cannot lower, for a message that names the node of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
from tvm import relax

from ..support.ir.tensor_dims import operand_types
from ..support.origin import node_of


class NotLowered(ValueError):
    """TVM cannot lower a call; the message is one line."""


def why_not_lowered(mod: Any, error: Exception) -> Exception:
    """Return an error that names the first call of a module whose own lowering fails.

    Args:
        mod: The module that TVM cannot lower.
        error: The error of TVM, which is returned if each call alone is lowered.
    """
    builder = relax.BlockBuilder()
    for func in mod.functions.values():
        for binding in _calls(func.body) if isinstance(func, relax.Function) else ():
            if (reason := _failure(builder, binding.value)) is not None:
                node, call = node_of(binding), binding.value
                name = call.op.name.removeprefix("relax.")
                return NotLowered(
                    f"{node and f'{node}: '}{name} of {operand_types(call)} cannot be lowered by "
                    f"TVM: {reason}; make its sizes static, or use other attributes"
                )
    return error


def _calls(seq: Any) -> Iterator[Any]:
    for binding in (b for block in seq.blocks for b in block.bindings):
        value = binding.value
        if isinstance(value, relax.If):
            yield from _calls(value.true_branch)
            yield from _calls(value.false_branch)
        elif isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
            yield binding


def _failure(builder: Any, call: Any) -> str | None:
    """Return the reason why a call is not lowered; None if it is, or needs no rule."""
    rule = call.op.get_attr("FLegalize")
    if rule is None:
        return None
    builder._begin_binding_block()
    try:
        rule(builder, call)
    except Exception as error:  # rules of TVM raise various types
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = lines[-1] if lines else ""
        vague = isinstance(error, (AttributeError, AssertionError, LookupError, TypeError))
        return f"{type(error).__name__}{text and f': {text}'}" if vague or not text else text
    finally:
        builder._end_block()
    return None
