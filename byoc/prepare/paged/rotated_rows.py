"""Rows of features that are turned by rotary embeddings, in float32.

    a = position * scale / theta^(2 d / features)                              d < features / 2
    out[d], out[d + half] = cos a * x[d] - sin a * x[d + half], cos a * x[d + half] + sin a * x[d]

Scalings have other angles (`RopeScaling`). As in TVM's kernels, elements are rounded to the dtype
of the operands before they are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ....analysis.blocks.tir import loop, seq
from ....analysis.composites.positions.rope_scaling import TIR
from ....analysis.lifting.tir.node import items
from ..loops.bfloat16_words import WIDE
from .attention_operands import AttentionOperands
from .vector_terms import index, load, narrowed, wide


@dataclass(frozen=True)
class Rotation:
    """Rotary embeddings of some operands.

    Attributes:
        operands: The operands.
        powers: The powers of the base, by which positions are divided, or what they are multiplied
            by: for features / 2 features, or for all if the halves differ.
    """

    operands: AttentionOperands
    powers: Any

    @classmethod
    def of(cls, operands: AttentionOperands) -> Rotation:
        """Return those of some operands; the powers are to be allocated and computed."""
        count = operands.features // (1 if operands.scaling.halves_differ else 2)
        return cls(operands, tirx.decl_buffer([count], WIDE, name="powers"))

    @property
    def wanted(self) -> Any:
        """Whether the call asks for rotary embeddings."""
        return tirx.EQ(self.operands.scalars[0], tirx.IntImm("int32", 1))

    def computed(self) -> Any:
        """Return the statement that computes the powers."""
        theta, features = self.operands.scalars[2], self.operands.features

        (count,) = items(self.powers.ty.shape)

        def power(d: Any) -> Any:
            twice = tirx.FloorMod(d * index(2), index(features))
            share = tirx.Cast(WIDE, twice) / tirx.FloatImm(WIDE, features)
            power, feature = tirx.Var("power", WIDE), tirx.Var("feature", WIDE)
            frequency = self.operands.scaling.frequency(power, feature, TIR)
            return seq([
                tirx.Bind(power, tirx.power(theta, share)), tirx.Bind(feature, tirx.Cast(WIDE, d)),
                tirx.BufferStore(self.powers, power if frequency is None else frequency, [d]),
            ])  # fmt: skip

        return loop("d", int(count), index(0), power)

    def turned(self, source: Any, start: Any, position: Any, target: Any, place: Any) -> Any:
        """Return the statement that turns a row.

        Args:
            source: A flat buffer.
            start: Where the row begins there.
            position: Its position, of the dtype of indices.
            target: A flat buffer of float32.
            place: Where the turned row begins there.
        """
        half = self.operands.features // 2
        dtype = str(self.operands["query"].ty.dtype)

        def pair(d: Any) -> Any:
            low, high = (tirx.Var(name, WIDE) for name in ("low", "high"))
            steps, (cos, sin) = self._waves(position, d)
            out = [cos * low - sin * high]
            if self.operands.scaling.halves_differ:
                more, (cos, sin) = self._waves(position, d + index(half))
                steps += more
            out.append(cos * high + sin * low)
            return seq([
                *steps, tirx.Bind(low, wide(source, start + d)),
                tirx.Bind(high, wide(source, start + d + index(half))),
                *(tirx.BufferStore(target, narrowed(x, dtype), [place + d + index(k * half)])
                  for k, x in enumerate(out)),
            ])  # fmt: skip

        return loop("d", half, index(0), pair)

    def _waves(self, position: Any, d: Any) -> tuple[list[Any], tuple[Any, Any]]:
        """The steps that compute the cosine and the sine of an angle, and these."""
        scaling, scale = self.operands.scaling, self.operands.scalars[1]
        angle, cos, sin = (tirx.Var(name, WIDE) for name in ("angle", "cos", "sin"))
        place, table = tirx.Cast(WIDE, position) * scale, load(self.powers, d)
        value = place / table if scaling.divides else place * table
        waves = [tirx.cos(angle), tirx.sin(angle)]
        if scaling.magnitude is not None:
            waves = [wave * tirx.FloatImm(WIDE, scaling.magnitude) for wave in waves]
        binds = zip((angle, cos, sin), (value, *waves), strict=True)
        return [tirx.Bind(var, x) for var, x in binds], (cos, sin)
