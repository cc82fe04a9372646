"""Rows of features that are turned by rotary embeddings, in float32.

    a = position * scale / theta^(2 d / features)                              d < features / 2
    out[d], out[d + half] = cos a * x[d] - sin a * x[d + half], cos a * x[d + half] + sin a * x[d]

As in TVM's kernels, elements are rounded to the dtype of the operands before they are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from .attention_operands import AttentionOperands
from .vector_terms import WIDE, index, load, narrowed, wide


@dataclass(frozen=True)
class Rotation:
    """Rotary embeddings of some operands.

    Attributes:
        operands: The operands.
        powers: (features / 2,): the powers of the base, by which positions are divided.
    """

    operands: AttentionOperands
    powers: Any

    @classmethod
    def of(cls, operands: AttentionOperands) -> Rotation:
        """Return those of some operands; the powers are to be allocated and computed."""
        return cls(operands, tirx.decl_buffer([operands.features // 2], WIDE, name="powers"))

    @property
    def wanted(self) -> Any:
        """Whether the call asks for rotary embeddings."""
        return tirx.EQ(self.operands.scalars[0], tirx.IntImm("int32", 1))

    def computed(self) -> Any:
        """Return the statement that computes the powers."""
        theta, features = self.operands.scalars[2], self.operands.features

        def power(d: Any) -> Any:
            share = tirx.Cast(WIDE, d * index(2)) / tirx.FloatImm(WIDE, features)
            return tirx.BufferStore(self.powers, tirx.power(theta, share), [d])

        return loop("d", features // 2, index(0), power)

    def turned(self, source: Any, start: Any, position: Any, target: Any, place: Any) -> Any:
        """Return the statement that turns a row.

        Args:
            source: A flat buffer.
            start: Where the row begins there.
            position: Its position, of the dtype of indices.
            target: A flat buffer of float32.
            place: Where the turned row begins there.
        """
        half, scale = self.operands.features // 2, self.operands.scalars[1]
        dtype = str(self.operands["query"].ty.dtype)

        def pair(d: Any) -> Any:
            angle, cos, sin = (tirx.Var(name, WIDE) for name in ("angle", "cos", "sin"))
            low, high = (tirx.Var(name, WIDE) for name in ("low", "high"))
            value = tirx.Cast(WIDE, position) * scale / load(self.powers, d)
            out = (cos * low - sin * high, cos * high + sin * low)
            return seq([
                tirx.Bind(angle, value), tirx.Bind(cos, tirx.cos(angle)),
                tirx.Bind(sin, tirx.sin(angle)), tirx.Bind(low, wide(source, start + d)),
                tirx.Bind(high, wide(source, start + d + index(half))),
                *(tirx.BufferStore(target, narrowed(x, dtype), [place + d + index(k * half)])
                  for k, x in enumerate(out)),
            ])  # fmt: skip

        return loop("d", half, index(0), pair)
