"""The call that TVM cannot lower, for a message that names the node of the model."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from ..support.ir.nested_bindings import nested_bindings
from ..support.ir.tensor_dims import operand_types
from ..support.origin import node_of
from ..support.wording import last_line


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
        for binding in nested_bindings(func.body) if isinstance(func, relax.Function) else ():
            call = binding.value
            reason = _failure(builder, call) if _is_operator_call(call) else None
            if reason is not None:
                node = node_of(binding)
                name = call.op.name.removeprefix("relax.")
                return NotLowered(
                    f"{node and f'{node}: '}{name} of {operand_types(call)} cannot be lowered by "
                    f"TVM: {reason}; make its sizes static, or use other attributes"
                )
    return error


def why_not_dispatched(mod: Any, operators: frozenset[str], error: Exception) -> NotLowered:
    """Return an error that names the first of these calls whose tensor has no known shape.

    Args:
        mod: The module, whose other operators are lowered.
        operators: The sorts and scans that TVM's pass lowers, by name.
        error: The error of the pass.
    """
    reason = str(error).strip().partition("\n")[0]
    for func in mod.functions.values():
        for binding in nested_bindings(func.body) if isinstance(func, relax.Function) else ():
            call = binding.value
            if not (_is_operator_call(call) and call.op.name in operators):
                continue
            if isinstance(call.args[0].ty.shape, relax.ShapeExpr):
                continue
            node = node_of(binding)
            name = call.op.name.removeprefix("relax.")
            return NotLowered(
                f"{node and f'{node}: '}{name} of {operand_types(call)} cannot be lowered by TVM: "
                "its shape is unknown; give its tensor a known shape"
            )
    return NotLowered(
        f"sorts and scans cannot be lowered by TVM: {reason}; give their tensors a known shape"
    )


def _is_operator_call(value: Any) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)


def _failure(builder: Any, call: Any) -> str | None:
    """Return the reason why a call is not lowered; None if it is, or needs no rule."""
    rule = call.op.get_attr("FLegalize")
    if rule is None:
        return None
    builder._begin_binding_block()
    try:
        rule(builder, call)
    except Exception as error:  # rules of TVM raise various types
        text = last_line(error)
        vague = isinstance(error, (AttributeError, AssertionError, LookupError, TypeError))
        kind = type(error).__name__
        return f"{kind}: {text}" if vague and text != kind else text
    finally:
        builder._end_block()
    return None
