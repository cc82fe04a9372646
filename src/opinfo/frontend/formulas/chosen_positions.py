"""The positions of the elements that a mask chooses."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


def chosen_positions(mask: Any, count: Any) -> Any:
    """Return the positions of true elements, in order.

    Args:
        mask: A vector of truth values.
        count: How many of them are true.

    Returns:
        Positions (count,) in int64, and the number of positions (1,), which is `count`.
    """
    return te.extern([(count,), (1,)], [mask], _body, dtype=["int64", "int64"],
                     name="chosen_positions")  # fmt: skip


def _body(inputs: Any, outputs: Any) -> Any:
    (extent,) = inputs[0].shape
    with IRBuilder() as builder, T.seq_scope():
        mask = T.buffer_proxy(inputs[0])
        positions, number = (T.buffer_proxy(x) for x in outputs)
        number[0] = tirx.const(0, "int64")
        with T.serial(0, extent) as k, T.If(mask[k]), T.Then():
            positions[number[0]] = tirx.Cast("int64", k)
            number[0] = number[0] + tirx.const(1, "int64")
    return builder.get()
