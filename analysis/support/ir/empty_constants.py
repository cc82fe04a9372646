"""Constants without elements, which TVM's files cannot hold.

TVM's reader of tensors demands data unless the first dimension is 0, so a file with a constant of
shape (1, 0, 3) cannot be loaded, be it JSON or the library of a virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from ..tvm_compat import array_of
from .rewrite_functions import rewrite_functions


def is_unreadable(shape: Sequence[int]) -> bool:
    """Return whether TVM cannot load a constant of a shape."""
    return 0 in shape[1:] and shape[0] != 0


@relax.expr_functor.mutator
class _Replaced(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, replacement: Callable[[Any], Any]) -> None:
        super().__init__(mod)
        self._replacement = replacement

    def visit_generic_const_(self, const: Any) -> Any:
        if not isinstance(const.ty, relax.TensorType) or not is_unreadable(array_of(const).shape):
            return const
        return self.builder_.emit(self._replacement(const))

    visit_constant_ = visit_generic_const_  # its name in TVM 0.25


def replaced(mod: Any, replacement: Callable[[Any], Any]) -> Any:
    """Return a module with such constants replaced by expressions; `mod` is not changed."""
    return rewrite_functions(mod, _Replaced(mod, replacement))


def as_zeros(const: Any) -> Any:
    """Return the constant as an operator."""
    return relax.op.zeros(array_of(const).shape, str(const.ty.dtype))


def as_call(const: Any) -> Any:
    """Return the constant as a call that TVM does not fold into a constant."""
    shape, dtype = array_of(const).shape, str(const.ty.dtype)
    flat = relax.const(np.zeros(0, dtype), dtype)
    return relax.op.call_pure_packed(
        "vm.builtin.reshape", flat, relax.ShapeExpr(shape),
        ty_args=relax.TensorType(shape, dtype),
    )  # fmt: skip
