"""Tensors that are computed from two others, element by element, by a loop of TIR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

#: Emits the statements for the element k of three vectors: the operands and the result.
Element = Callable[[Sequence[Any], Any], None]


def pairwise(
    builder: Any, left: Any, right: Any, shape: Sequence[Any], element: Element, name: str
) -> Any:
    """Return a tensor of the dtype of `left`.

    Args:
        builder: The block builder.
        left: A tensor that is broadcast to the shape.
        right: Another one, perhaps of another dtype.
        shape: The shape of the result.
        element: Emits the computation of an element.
        name: The name of the operation.
    """
    op = relax.op
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return op.zeros(shape, left.ty.dtype)  # Relax's reshape copies a size for 0
    flat = [builder.emit(op.reshape(builder.emit(op.broadcast_to(x, shape)), [-1]))
            for x in (left, right)]  # fmt: skip

    def vector(first: Any, second: Any) -> Any:
        def body(inputs: Any, outputs: Any) -> Any:
            with IRBuilder() as statements:
                with T.serial(0, first.shape[0]) as k:
                    element([*inputs, *outputs], k)
                return statements.get()

        return te.extern([first.shape], [first, second], body,
                         dtype=[str(first.dtype)], name=name)  # fmt: skip

    return op.reshape(builder.emit_te(vector, *flat, primfunc_name_hint=name), shape)
