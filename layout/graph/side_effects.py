"""Whether calls in a Relax function may write into tensors that exist already."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar
from tvm.ir import Op as IrOp

from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import op_name

#: Operators that count as pure in Relax, but run unknown code or write in place.
FOREIGN = frozenset(f"relax.{name}" for name in (
    "call_tir_inplace", "call_inplace_packed", "call_pure_packed", "call_dps_packed",
    "call_py_func", "invoke_pure_closure", "make_closure",
))  # fmt: skip
#: Those that update operands.
IN_PLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")
#: Operators with an effect that does not touch tensors.
READING = frozenset(("relax.print", "relax.assert_op"))

#: TVM's `CallEffectKind` of what reads at most; greater ones write.
READ_STATE = 2


class Effect(IntEnum):
    """What a call may write into."""

    NONE = 0
    #: Foreign code that counts as pure: nothing reads what it writes into afterwards.
    DECLARED_PURE = 1
    #: An impure call may write into any tensor that it can reach, at any time.
    IMPURE = 2


class SideEffects:
    """The effects of the Relax functions of a module; each is read once."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        self._calls: NodeDict[tuple[Effect, list[Any]]] = NodeDict()

    def of_function(self, func: Any) -> Effect:
        """Return the greatest effect of the calls in a function."""
        direct, callees = _calls(func)
        return max((direct, *map(self._of_callee, callees)))

    def of(self, value: Any) -> Effect:
        """Return the effect of an expression; most Relax operators have none."""
        if not isinstance(value, relax.Call):
            return Effect.NONE
        return self._of_callee(value.op) if isinstance(value.op, GlobalVar) else _of_call(value)

    def eras(self, func: Any) -> NodeDict[int]:
        """Return for each variable of the outer blocks how many calls before it may have written.

        Equal numbers say that nothing was written in between. A `DataflowBlock` may contain calls
        that are declared pure and still write, such as ``call_tir_inplace``.
        """
        eras, count = NodeDict[int](), 0
        for block in func.body.blocks:
            for binding in block.bindings:
                eras[binding.var] = count
                value = getattr(binding, "value", None)
                count += isinstance(value, relax.If) or self.of(value) > Effect.NONE
        return eras

    @staticmethod
    def overwrites(func: Any) -> bool:
        """Return whether a call that is declared pure updates a value that is also read elsewhere.

        The other reads come before the update, and must stay there.
        """
        reads, updated = NodeDict[int](), list[Any]()

        def read(var: Any) -> None:
            reads[var] = (reads.get(var) or 0) + 1

        def call(expr: Any) -> None:
            if op_name(expr) in IN_PLACE:
                updated.extend(_updated(expr))

        parts = [b.value for block in func.body.blocks for b in block.bindings if _is_var(b)]
        for part in (*parts, func.body.body):
            tvm_ffi.structural_walk(part, [(relax.Var, read), (relax.Call, call)])
        return any((reads.get(v) or 0) > 1 for v in updated)

    def _of_callee(self, gvar: Any) -> Effect:
        """The effect of a function and of those that it calls, perhaps each other."""
        effect, todo, seen = Effect.NONE, [gvar], NodeDict[bool]()
        while todo:
            callee = todo.pop()
            if callee in seen:
                continue
            seen[callee] = True
            func = self.mod.functions.get(callee)
            if not isinstance(func, relax.Function):
                return Effect.IMPURE
            if callee not in self._calls:
                self._calls[callee] = _calls(func)
            direct, callees = self._calls[callee]
            effect = max(effect, direct)
            todo += callees
        return effect


def _is_var(binding: Any) -> bool:
    return isinstance(binding, relax.VarBinding)


def _updated(call: Any) -> list[Any]:
    """The operands that a call updates."""
    operands = call.args[1]
    operands = operands.fields if isinstance(operands, relax.Tuple) else list(call.args[1:])
    places = [int(k) for k in call.attrs.inplace_indices]
    return [operands[k] for k in places if 0 <= k < len(operands)]


def _calls(func: Any) -> tuple[Effect, list[Any]]:
    """The greatest effect of what a function calls beside functions of the module, and those."""
    calls: list[Any] = []
    tvm_ffi.structural_walk(func.body, (relax.Call, calls.append))
    callees = [call.op for call in calls if isinstance(call.op, GlobalVar)]
    effects = (_of_call(call) for call in calls if not isinstance(call.op, GlobalVar))
    return max(effects, default=Effect.NONE), callees


def _of_call(call: Any) -> Effect:
    """The effect of a call of anything but a function of the module."""
    name = op_name(call)
    if isinstance(call.op, IrOp) and not name.startswith("relax."):
        return _of_number(call.op)
    if not isinstance(call.op, IrOp):
        return Effect.IMPURE
    if name in FOREIGN:
        return Effect.DECLARED_PURE
    return Effect.NONE if call.op.get_attr("FPurity") or name in READING else Effect.IMPURE


def _of_number(op: Any) -> Effect:
    """The effect of an operator on numbers, such as `if_then_else` in a size."""
    kind = op.get_attr("TCallEffectKind")
    return Effect.NONE if kind is not None and int(kind) <= READ_STATE else Effect.IMPURE
