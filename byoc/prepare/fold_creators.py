"""Make constants of large tensors that depend on nothing and whose readers could then be folded.

Before: o = R.call_tir(cls.ones, ()); m = R.call_tir(cls.tril, (o,))       a causal mask
After:  m = R.call_tir(cls.tril, (R.const(...),)), which FoldConstant folds

FoldConstant leaves creators of more than 1024 elements, and with them all that is computed from
them. A creator with another reader stays: it is fused into that, and would enlarge the library.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.support.tvm_compat import GenericConst
from .integers import named
from .mutate import mutated

#: Bytes of a creator at most: the library contains what is folded.
LARGEST = 64 << 20


def fold_creators(mod: Any) -> Any | None:
    """The lowered module with creators as constants; None if nothing changes."""
    writer = _Creators(mod)
    return mutated(mod, writer) if list(writer.constants.items()) else None


def fold_constants(mod: Any) -> Any:
    """The lowered module with all folded that depends on constants only; nothing unused."""
    out = relax.transform.FoldConstant()(mod)
    created = fold_creators(out)
    while created is not None:
        out = relax.transform.FoldConstant()(created)
        created = fold_creators(out)
    return relax.transform.DeadCodeElimination()(out)


@relax.expr_functor.mutator
class _Creators(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod = mod
        self.constants: NodeDict[Any] = NodeDict()
        for _, func in mod.functions_items():
            if isinstance(func, relax.Function):
                self._note(func)

    def _note(self, func: Any) -> None:
        """Note the creators with a reader that depends on constants and creators only."""
        creators: NodeDict[Any] = NodeDict()

        def visit(binding: Any) -> None:
            call = binding.value
            if not _static_call(call):
                return
            operands = items(call.args[1].fields)
            if not operands and _bytes(call) <= LARGEST:
                creators[binding.var] = call
            elif all(isinstance(a, GenericConst) or a in creators for a in operands):
                for operand in operands:
                    if operand in creators and creators[operand] not in self.constants:
                        self.constants[creators[operand]] = self._value(creators[operand])

        tvm_ffi.structural_walk(func, (relax.VarBinding, visit))

    def _value(self, call: Any) -> Any:
        func = self.mod[call.args[0]].with_attr("global_symbol", "creator")
        built = tvm.compile(tvm.IRModule({"creator": func}), target="llvm")
        result = tvm.runtime.empty(_shape(call), str(call.ty.dtype))
        built["creator"](result)
        return relax.const(result)

    def visit_call_(self, call: Any) -> Any:
        constant = self.constants.get(call)
        return super().visit_call_(call) if constant is None else constant


def _static_call(call: Any) -> bool:
    """Whether this is a ``call_tir`` with one result of known shape, and no symbolic scalars."""
    tensor = isinstance(getattr(call, "ty", None), relax.TensorType)
    return named(call, "relax.call_tir") and len(call.args) == 2 and tensor and _shape(call) != ()


def _shape(call: Any) -> tuple[int, ...]:
    """The extents of a call's result; none unless they are known."""
    extents = items(getattr(call.ty.shape, "values", ()))
    known = [int(e.value) for e in extents if hasattr(e, "value")]
    return tuple(known) if len(known) == len(extents) else ()


def _bytes(call: Any) -> int:
    bits: int = tvm.DataType(str(call.ty.dtype)).bits
    return math.prod(_shape(call)) * max(1, bits // 8)
